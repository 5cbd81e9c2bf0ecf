import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readdir, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { eventTypes, type RuleFileFault, type RuleMode, ruleLimits } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { localActor } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import type { Ingest } from '../events/ingest.ts'
import { readListRows } from './list-queries.ts'
import { readRules } from './queries.ts'
import { assertTested } from './rule-text.ts'
import { deleteFileRule, readWithLists, storeFileRule } from './rules.ts'

const extensions = new Set(['.yml', '.yaml', '.json'])

interface FileRule {
  id: string
  file: string
  mode: RuleMode
  read: Awaited<ReturnType<typeof readWithLists>>
}

interface FoundFile {
  name: string
  size: number
  mtimeMs: number
  /** Why the file must not be opened. */
  fault?: string
}

interface Reading {
  /** Names, sizes, times and faults of the files, to detect changes. */
  signature: string
  names: ReadonlySet<string>
  rules: FileRule[]
  faults: RuleFileFault[]
}

/** Derives the id from the file name, so that the rule stays the same when its title changes. */
function idOfFile(file: string): string {
  const hex = createHash('sha256').update(`file of a rule: ${file}`).digest('hex')
  // A UUID of version 8 (RFC 9562): custom derivation.
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

const tooLong = `The file has more than ${ruleLimits.textBytes / 1024} KiB.`

/** Looks at a file without opening it; undefined if it was removed meanwhile. Links are followed, as ConfigMaps need. */
async function findFile(folder: string, name: string): Promise<FoundFile | undefined> {
  const path = join(folder, name)
  try {
    const found = await stat(path)
    const { size, mtimeMs } = found
    // A FIFO blocks who opens it, and a device never ends.
    if (!found.isFile()) return { name, size, mtimeMs, fault: 'It is not a regular file.' }
    return { name, size, mtimeMs, ...(size > ruleLimits.textBytes ? { fault: tooLong } : {}) }
  } catch (fault) {
    const isGone = await lstat(path).then(
      () => false,
      () => true,
    )
    return isGone ? undefined : { name, size: 0, mtimeMs: 0, fault: sentenceOf(fault) }
  }
}

/** Reads at most the limit, without waiting: the file may have been replaced since it was found. */
async function readText(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new AppError('invalid', 'It is not a regular file.')
    const bytes = Buffer.alloc(ruleLimits.textBytes + 1)
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > ruleLimits.textBytes) throw new AppError('invalid', tooLong)
    return bytes.toString('utf8', 0, length)
  } finally {
    await file.close()
  }
}

/**
 * Rules in the folder WARDLINE_RULES_DIR, for rules in git. Files are read at startup and when they change. An invalid file
 * is reported and leaves its rule unchanged; other rules continue.
 */
export class RuleFiles {
  readonly #deps: Deps
  readonly #ingest: Ingest
  readonly #protection: ProtectionAlerts
  #last: Reading | undefined
  #syncFaults: RuleFileFault[] = []
  /** Rules that were refused because of others; each run stores them once that is possible. */
  #refused: FileRule[] = []
  readonly #reported = new Set<string>()
  #synced: string | undefined

  constructor(deps: Deps, { ingest, protectionAlerts }: { ingest: Ingest; protectionAlerts: ProtectionAlerts }) {
    this.#deps = deps
    this.#ingest = ingest
    this.#protection = protectionAlerts
  }

  /** Files that this process found invalid. */
  faults(): RuleFileFault[] {
    return [...(this.#last?.faults ?? []), ...this.#syncFaults]
  }

  /** Reads the folder; the process that runs the rules stores the changes. */
  async run(isHolder: boolean): Promise<void> {
    const { rulesDir } = this.#deps.config
    if (rulesDir === undefined) return
    const reading = await this.#read(rulesDir)
    if (!isHolder) {
      this.#synced = undefined
      return
    }
    const isSame = this.#synced === reading.signature
    if (isSame && this.#refused.length === 0) return
    // A run that fails is repeated for all files.
    this.#synced = undefined
    await this.#storeAll(isSame ? this.#refused : reading.rules)
    if (!isSame) {
      await this.#removeMissing(reading)
      // There may be room for a rule now.
      if (this.#refused.length > 0) await this.#storeAll(this.#refused)
    }
    await this.#report()
    this.#synced = reading.signature
  }

  async #read(folder: string): Promise<Reading> {
    let names: string[]
    try {
      names = (await readdir(folder)).filter((name) => extensions.has(extname(name)) && !name.startsWith('.'))
    } catch (fault) {
      return this.#unreadable(folder, fault as NodeJS.ErrnoException)
    }
    const files = await Promise.all(names.sort().map((name) => findFile(folder, name)))
    const found = files.filter((file) => file !== undefined)
    // A rule may name a list that is created later.
    const lists = (await readListRows(this.#deps.database.db)).map(({ name, version }) => [name, version])
    const signature = JSON.stringify([found, lists])
    if (this.#last?.signature === signature) return this.#last
    const reading: Reading = { signature, names: new Set(found.map(({ name }) => name)), rules: [], faults: [] }
    const ids = new Map<string, string>()
    for (const { name, fault } of found) {
      try {
        if (fault !== undefined) throw new AppError('invalid', fault)
        const read = await readWithLists(this.#deps.database.db, await readText(join(folder, name)))
        const { id = idOfFile(name), mode = 'observe' } = read.rule.document
        assertTested(read, mode)
        const other = ids.get(id)
        if (other !== undefined) throw new AppError('invalid', `The file ${other} has the same id.`)
        ids.set(id, name)
        reading.rules.push({ id, file: name, mode, read })
      } catch (fault) {
        reading.faults.push({ file: name, error: sentenceOf(fault) })
      }
    }
    this.#last = reading
    return reading
  }

  /** An unreadable folder must not delete rules. */
  #unreadable(folder: string, { code }: NodeJS.ErrnoException): Reading {
    const error = `WARDLINE_RULES_DIR cannot be read (${code}).`
    const known = this.#last
    const names = known?.names ?? new Set<string>()
    this.#last = { signature: `unreadable ${code}`, names, rules: [], faults: [{ file: folder, error }] }
    return this.#last
  }

  #changing() {
    const { database, clock } = this.#deps
    return { database, protection: this.#protection, actor: localActor('system'), now: clock.now() }
  }

  async #storeAll(rules: readonly FileRule[]): Promise<void> {
    this.#syncFaults = []
    this.#refused = []
    for (const rule of rules) {
      try {
        await storeFileRule(this.#changing(), rule)
      } catch (fault) {
        if (!(fault instanceof AppError)) throw fault
        this.#syncFaults.push({ file: rule.file, error: fault.message })
        this.#refused.push(rule)
      }
    }
  }

  async #removeMissing({ names, signature }: Reading): Promise<void> {
    if (signature.startsWith('unreadable')) return
    for (const row of await readRules(this.#deps.database.db)) {
      if (row.file !== null && !names.has(row.file)) await deleteFileRule(this.#changing(), row)
    }
  }

  /** Logs each fault once, so that an invalid file does not fill the log. */
  async #report(): Promise<void> {
    for (const { file, error } of this.faults()) {
      const name = `${file}: ${error}`
      if (this.#reported.has(name)) continue
      this.#deps.log.error({ file, fault: error }, 'a rule file is invalid; it is not run, or runs as it was before')
      await this.#ingest.store([
        this.#ingest.own({
          severity: 'warning',
          event_type: eventTypes.ruleFileInvalid,
          description: `The rule file ${file} is invalid`.slice(0, 1_000),
          metadata: { file, error },
        }),
      ])
      this.#reported.add(name)
    }
    const now = new Set(this.faults().map(({ file, error }) => `${file}: ${error}`))
    for (const name of this.#reported) if (!now.has(name)) this.#reported.delete(name)
  }
}

function sentenceOf(fault: unknown): string {
  if (fault instanceof AppError) return fault.message
  return `The file cannot be read (${(fault as NodeJS.ErrnoException).code ?? 'unknown'}).`
}
