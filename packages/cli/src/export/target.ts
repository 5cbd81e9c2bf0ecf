import { once } from 'node:events'
import { open, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Failure } from '../exit.ts'

/** Destination of an export. */
interface ExportTarget {
  /** Resolves when the target accepts more. */
  write(text: string | Uint8Array): Promise<void>
  /** Completes the export. */
  finish(): Promise<void>
  /** Removes a partial export after an error. */
  abandon(): Promise<void>
}

const standardOutput: ExportTarget = {
  async write(text) {
    if (!process.stdout.write(text)) await once(process.stdout, 'drain')
  },
  finish: async () => {},
  abandon: async () => {},
}

/** Writes a temporary file and renames it when it is complete and synced, so that readers see no partial export. */
async function fileTarget(file: string): Promise<ExportTarget> {
  const draft = `${file}.part`
  try {
    await rm(draft, { force: true })
    // Readable by the owner only, because events contain addresses and names. `wx` does not follow a link of another
    // user.
    const handle = await open(draft, 'wx', 0o600)
    return {
      write: async (text) => {
        await handle.writeFile(text)
      },
      async finish() {
        await handle.sync()
        await handle.close()
        await rename(draft, file)
      },
      async abandon() {
        await handle.close().catch(() => {})
        await rm(draft, { force: true })
      },
    }
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code
    throw new Failure(`${draft} cannot be written (${reason}).`, 'output', 'failed', { cause })
  }
}

export async function openExportTarget(output: string | undefined): Promise<ExportTarget> {
  return output === undefined ? standardOutput : await fileTarget(resolve(output))
}
