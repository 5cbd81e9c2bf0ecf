import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'

export interface Download {
  bytes: Buffer
  /** Strong: a hash of the bytes. */
  etag: string
}

type Tools = Pick<Deps, 'clock' | 'log'>

/** In compiled code, the files are in the same folder. */
const isClone = import.meta.url.endsWith('.ts')
const fileOf = (name: string, inClone: string) => new URL(isClone ? inClone : `./${name}`, import.meta.url)
const pythonFile = fileOf('wardline.py', '../../../../../clients/python/wardline.py')
const sdkFile = fileOf('sdk.tgz', '../../../../../tools/pack-sdk.ts')

/** Packing takes seconds, and longer on a busy machine. */
const packWithinMs = 120_000
/** The packed SDK is about 40 KB. */
const maxBytes = 4 * 1_048_576
/** The request needs no key, so a failure is cached: otherwise every request would start another packing process. */
const failureCacheMs = 60_000

async function packedBy(program: URL): Promise<Buffer> {
  const options = { encoding: 'buffer', maxBuffer: maxBytes, timeout: packWithinMs } as const
  return (await promisify(execFile)(process.execPath, [fileURLToPath(program)], options)).stdout
}

/** Reads the file once and shares the result between all requests. Failures are cached for `failureCacheMs`. */
function readOnce(name: string, read: () => Promise<Buffer>, { clock, log }: Tools): () => Promise<Download> {
  let kept: Promise<Download> | undefined
  let failedAt = -Infinity
  const load = async () => {
    try {
      const bytes = await read()
      return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` }
    } catch (err) {
      failedAt = clock.monotonic()
      kept = undefined
      log.warn({ err }, `${name} is not available for download`)
      throw unavailable(name)
    }
  }
  return async () => {
    if (clock.monotonic() - failedAt < failureCacheMs) throw unavailable(name)
    kept ??= load()
    return kept
  }
}

const unavailable = (name: string) =>
  new AppError(
    'unavailable',
    `${name} is not available; the reason is in the log of the service.`,
    failureCacheMs / 1_000,
  )

/** `packProgram` prints the packed SDK. It runs only when the service runs from its sources. */
export function createDownloads(tools: Tools, packProgram = sdkFile) {
  return {
    /** The SDK's npm package. Throws AppError `unavailable` when the sources of a clone cannot be packed. */
    sdk: readOnce('sdk.tgz', () => (isClone ? packedBy(packProgram) : readFile(sdkFile)), tools),
    pythonClient: readOnce('wardline.py', () => readFile(pythonFile), tools),
  }
}
