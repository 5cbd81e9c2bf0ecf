import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { DocumentFileFault, eventTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { localActor } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import type { Ingest } from '../events/ingest.ts'
import { fileProblem, findFile, readBounded, readWithin, stateWithin } from './bounded-file.ts'
import type { Changing } from './rules.ts'

const extensions = new Set(['.yml', '.yaml', '.json'])

type Noun = 'rule' | 'policy'

/** What files of one kind are, and how they are stored. */
interface FileKind<Read, Row> {
  noun: Noun
  setting: 'WARDLINE_RULES_DIR' | 'WARDLINE_POLICY_DIR'
  folder: string | undefined
  eventType: typeof eventTypes.ruleFileInvalid | typeof eventTypes.policyFileInvalid
  /** What else decides whether a file is valid; files are read again when it changes. */
  context(): Promise<unknown>
  /** Whether a file by its name is only a part of others. */
  isPart?(name: string): boolean
  /** Reads a text. `readPart`: reads another file of the folder, by its path in it. Throws AppError. */
  read(text: string, readPart: (name: string) => Promise<string>): Promise<{ id?: string | undefined; read: Read }>
  store(changing: Changing, item: FileItem<Read>): Promise<void>
  stored(): Promise<Row[]>
  remove(changing: Changing, row: Row): Promise<void>
}

interface FileItem<Read> {
  id: string
  file: string
  read: Read
}

interface Reading<Read> {
  /** Names, sizes, times and faults of the files, to detect changes. */
  signature: string
  /** Paths of the parts that were read for files. */
  parts: readonly string[]
  names: ReadonlySet<string>
  items: FileItem<Read>[]
  faults: DocumentFileFault[]
}

/** Derives the id from the file name, so that it stays the same when its title changes. */
function idOfFile(noun: Noun, file: string): string {
  const hex = createHash('sha256').update(`file of a ${noun}: ${file}`).digest('hex')
  // A UUID of version 8 (RFC 9562): custom derivation.
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

export interface FileParts {
  ingest: Ingest
  protectionAlerts: ProtectionAlerts
}

/** What others use of the files in a folder. */
export type DocumentFolder = Pick<DocumentFiles<unknown, { file: string | null }>, 'faults' | 'run'>

/**
 * Rules or policies in a folder, for those in git. Files are read at startup and when they change. An invalid file is
 * reported and leaves what it was unchanged; others continue.
 */
export class DocumentFiles<Read, Row extends { file: string | null }> {
  readonly #deps: Deps
  readonly #ingest: Ingest
  readonly #protection: ProtectionAlerts
  readonly #kind: FileKind<Read, Row>
  #last: Reading<Read> | undefined
  #syncFaults: DocumentFileFault[] = []
  /** Those that were refused because of others; each run stores them once that is possible. */
  #refused: FileItem<Read>[] = []
  readonly #reported = new Set<string>()
  #synced: string | undefined

  constructor(deps: Deps, { ingest, protectionAlerts }: FileParts, kind: FileKind<Read, Row>) {
    this.#deps = deps
    this.#kind = kind
    this.#ingest = ingest
    this.#protection = protectionAlerts
  }

  /** Files that this process found invalid. */
  faults(): DocumentFileFault[] {
    return [...(this.#last?.faults ?? []), ...this.#syncFaults]
  }

  /** Reads the folder; the process that holds the lease of the rules stores the changes. */
  async run(isHolder: boolean): Promise<void> {
    const { folder } = this.#kind
    if (folder === undefined) return
    const reading = await this.#read(folder)
    if (!isHolder) {
      this.#synced = undefined
      return
    }
    const isSame = this.#synced === reading.signature
    if (isSame && this.#refused.length === 0) return
    // A run that fails is repeated for all files.
    this.#synced = undefined
    await this.#storeAll(isSame ? this.#refused : reading.items)
    if (!isSame) {
      await this.#removeMissing(reading)
      // There may be room now.
      if (this.#refused.length > 0) await this.#storeAll(this.#refused)
    }
    await this.#report()
    this.#synced = reading.signature
  }

  async #read(folder: string): Promise<Reading<Read>> {
    const { isPart } = this.#kind
    let names: string[]
    try {
      names = (await readdir(folder)).filter(
        (name) => extensions.has(extname(name)) && !name.startsWith('.') && !isPart?.(name),
      )
    } catch (fault) {
      return this.#unreadable(folder, fault as NodeJS.ErrnoException)
    }
    const files = await Promise.all(names.sort().map((name) => findFile(folder, name)))
    const found = files.filter((file) => file !== undefined)
    const context = await this.#kind.context()
    const signatureOf = (parts: readonly unknown[]) => JSON.stringify([found, context, parts])
    const last = this.#last
    if (last) {
      const states = await Promise.all(last.parts.map((part) => stateWithin(folder, part)))
      if (last.signature === signatureOf(states)) return last
    }
    const items: FileItem<Read>[] = []
    const faults: DocumentFileFault[] = []
    const parts = new Map<string, unknown>()
    const readPart = async (part: string) => {
      // Before it is read: a change meanwhile is seen by the next run.
      if (!parts.has(part)) parts.set(part, await stateWithin(folder, part))
      return readWithin(folder, part)
    }
    const ids = new Map<string, string>()
    for (const { name, fault } of found) {
      try {
        if (fault !== undefined) throw new AppError('invalid', fault)
        const text = await readBounded(join(folder, name))
        const { id = idOfFile(this.#kind.noun, name), read } = await this.#kind.read(text, readPart)
        const other = ids.get(id)
        if (other !== undefined) throw new AppError('invalid', `The file ${other} has the same id.`)
        ids.set(id, name)
        items.push({ id, file: name, read })
      } catch (fault) {
        faults.push({ file: name, error: fileProblem(fault) })
      }
    }
    const signature = signatureOf([...parts.values()])
    this.#last = { signature, parts: [...parts.keys()], names: new Set(found.map(({ name }) => name)), items, faults }
    return this.#last
  }

  /** An unreadable folder must not delete anything. */
  #unreadable(folder: string, { code }: NodeJS.ErrnoException): Reading<Read> {
    const error = `${this.#kind.setting} cannot be read (${code}).`
    const known = this.#last
    const names = known?.names ?? new Set<string>()
    this.#last = { signature: `unreadable ${code}`, parts: [], names, items: [], faults: [{ file: folder, error }] }
    return this.#last
  }

  #changing() {
    const { database, clock } = this.#deps
    return { database, protection: this.#protection, actor: localActor('system'), now: clock.now() }
  }

  async #storeAll(items: readonly FileItem<Read>[]): Promise<void> {
    this.#syncFaults = []
    this.#refused = []
    for (const item of items) {
      try {
        await this.#kind.store(this.#changing(), item)
      } catch (fault) {
        if (!(fault instanceof AppError)) throw fault
        this.#syncFaults.push({ file: item.file, error: fault.message })
        this.#refused.push(item)
      }
    }
  }

  async #removeMissing({ names, signature }: Reading<Read>): Promise<void> {
    if (signature.startsWith('unreadable')) return
    for (const row of await this.#kind.stored()) {
      if (row.file !== null && !names.has(row.file)) await this.#kind.remove(this.#changing(), row)
    }
  }

  /** Logs each fault once, so that an invalid file does not fill the log. */
  async #report(): Promise<void> {
    const { noun, eventType } = this.#kind
    for (const { file, error } of this.faults()) {
      const name = `${file}: ${error}`
      if (this.#reported.has(name)) continue
      this.#deps.log.error(
        { file, fault: error },
        `a ${noun} file is invalid; it does not take effect, or as it was before`,
      )
      await this.#ingest.store([
        this.#ingest.own({
          severity: 'warning',
          event_type: eventType,
          description: `The ${noun} file ${file} is invalid`.slice(0, 1_000),
          metadata: { file, error },
        }),
      ])
      this.#reported.add(name)
    }
    const now = new Set(this.faults().map(({ file, error }) => `${file}: ${error}`))
    for (const name of this.#reported) if (!now.has(name)) this.#reported.delete(name)
  }
}
