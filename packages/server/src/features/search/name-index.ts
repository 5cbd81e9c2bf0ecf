import { hash } from 'node:crypto'
import type { SearchKind } from '@wardline/contract'
import type { Clock } from '../../clock.ts'
import type { JsonPage } from '../../db/json-page.ts'
import { SharedRun } from '../../shared-run.ts'
import { type Entry, SearchIndex } from './search-index.ts'

/**
 * Rows read and indexed in one turn of the event loop, some 3 milliseconds. Fewer rows in all are read for each search, so
 * that it finds what is new.
 */
const pageRows = 500
/** More are read again while people search, at most this often: half a second of work for 100,000 agents. */
const keptMs = 20_000

/** A row: the id, then columns of the kind. */
type NameRow = readonly (string | null)[]

export interface Source {
  kind: SearchKind
  /** Memory of the index. Rows beyond are not indexed. */
  maxBytes: number
  /** Reads a page as the text of a JSON array of rows; null if it is empty. */
  read(page: JsonPage): Promise<string | null>
  entryOf(row: NameRow): Entry
}

interface Content {
  /** Of what was read. */
  digest: string
  index: SearchIndex
  bytes: number
  /** The id of the last row. */
  last: string
}

/** The rows with ids after the page before, up to `upTo`. */
interface Page extends Content {
  upTo: string
}

/**
 * The names of agents or decoys, indexed in pages by id. Few are read for each search. Many are read after it, and again
 * while people search; only pages that changed are indexed again.
 */
export class NameIndex {
  readonly #source: Source
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #pages: Page[] = []
  readonly #first: SharedRun<void>
  #isLarge = false
  #isReading = false
  #isComplete = false
  #readAt = -Infinity

  constructor(source: Source, clock: Pick<Clock, 'monotonic'>) {
    this.#source = source
    this.#clock = clock
    this.#first = new SharedRun(() => this.#readFirst(), { clock })
  }

  /** Returns what is indexed. Of many rows it may be incomplete, or older than `keptMs` by the time of one reading. */
  async get(): Promise<{ indexes: SearchIndex[]; isComplete: boolean }> {
    if (!this.#isLarge) await this.#first.get()
    return { indexes: this.#pages.map(({ index }) => index), isComplete: this.#isComplete }
  }

  /** Reads all of many rows if that is due. Waits for `isFree` before each page. */
  async refresh(isFree: () => Promise<unknown>): Promise<void> {
    if (!this.#isLarge || this.#isReading || this.#clock.monotonic() - this.#readAt < keptMs) return
    this.#isReading = true
    this.#readAt = this.#clock.monotonic()
    try {
      await this.#readPages(isFree)
      this.#isComplete = true
    } catch {
      // The next search reads again; it fails with its other reads if the database is down.
      this.#readAt = -Infinity
    } finally {
      this.#isReading = false
    }
  }

  async #readFirst(): Promise<void> {
    const content = this.#indexed(
      (await this.#source.read({ after: '', upTo: undefined, limit: pageRows })) ?? '[]',
      this.#pages[0],
    )
    if (this.#isLarge) return
    this.#isLarge = content.index.size === pageRows
    this.#isComplete = !this.#isLarge
    this.#pages[0] = { ...content, upTo: content.last }
  }

  async #readPages(isFree: () => Promise<unknown>): Promise<void> {
    const { read, maxBytes } = this.#source
    const pages = this.#pages
    let after = ''
    let bytes = 0
    let place = 0
    while (bytes < maxBytes) {
      await isFree()
      const known = pages[place]
      // The last page has no end. Others have room for new rows before they are split.
      const upTo = place < pages.length - 1 ? known!.upTo : undefined
      const limit = upTo === undefined ? pageRows : 2 * pageRows
      const content = this.#indexed((await read({ after, upTo, limit })) ?? '[]', known)
      const { size } = content.index
      const isSplit = upTo !== undefined && size === limit
      after = upTo === undefined || isSplit ? content.last : upTo
      pages.splice(place, isSplit ? 0 : 1, ...(size > 0 ? [{ ...content, upTo: after }] : []))
      if (upTo === undefined && size < limit) return
      if (size > 0) place += 1
      bytes += content.bytes
    }
    pages.length = place
  }

  #indexed(text: string, known: Content | undefined): Content {
    const digest = hash('sha256', text)
    if (known?.digest === digest) return known
    const { kind, entryOf } = this.#source
    const rows: NameRow[] = JSON.parse(text)
    const index = new SearchIndex(kind, rows.map(entryOf))
    return { last: rows.at(-1)?.[0] ?? '', digest, bytes: index.bytes, index }
  }
}
