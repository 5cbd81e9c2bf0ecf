import { once } from 'node:events'
import { open, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Failure } from '../exit.ts'

/** Destination of an export. */
interface ExportTarget {
  /** Resolves when there is room for more. */
  write(text: string | Uint8Array): Promise<void>
  /** Everything is there. */
  finish(): Promise<void>
  /** Something went wrong: nothing half-made may stay. */
  abandon(): Promise<void>
}

const standardOutput: ExportTarget = {
  async write(text) {
    if (!process.stdout.write(text)) await once(process.stdout, 'drain')
  },
  finish: async () => {},
  abandon: async () => {},
}

/** Written beside the file, and moved into place in one step once it is on disk: readers never see half an export. */
async function fileTarget(file: string): Promise<ExportTarget> {
  const draft = `${file}.part`
  try {
    await rm(draft, { force: true })
    // Events contain addresses and names: for the owner only. Not through a link that another user put there.
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
