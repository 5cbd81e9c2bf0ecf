import type { SearchHit, SearchKind } from '@wardline/contract'
import { type AskedWord, askedWords, lettersOf, matchCost, wordsOf } from '@wardline/text'
import type { Slices, WorkBudget } from '../../work-turns.ts'

/** Words of an entry that are found: an id, a name and 20 tags have fewer. */
const maxWords = 100
const noMatch = 255

/** A hit with its rank; the lowest is the best. */
export interface Ranked {
  kind: SearchKind
  hit: SearchHit
  /** Cost of its words, then how its id or title begins, then its length. */
  rank: number
}

/** What was asked, prepared. */
export interface Asked {
  text: string
  words: readonly AskedWord[]
}

export const asked = (query: string): Asked => ({ text: query.trim().toLowerCase(), words: askedWords(query) })

/** Of two names whose words match alike, the shorter one is meant: `billing-1` before `billing-10`. */
export function rankOf({ text }: Asked, { id, title }: SearchHit, cost: number): number {
  const name = title.toLowerCase()
  const beginning = id === text || name === text ? 0 : id.startsWith(text) || name.startsWith(text) ? 1 : 2
  return cost * 10_000 + beginning * 1_000 + Math.min(id.length, title.length, 999)
}

const withoutLength = (rank: number) => Math.floor(rank / 1_000)

/** The best hits of each kind, in order. Of equal ones, the first that was added comes first. */
export class BestHits {
  readonly #limit: number
  readonly #isShown: (kind: SearchKind, hit: SearchHit) => boolean
  readonly #byKind = new Map<SearchKind, Ranked[]>()

  /** Hits that are not shown take no place of others. */
  constructor(limit: number, isShown: (kind: SearchKind, hit: SearchHit) => boolean = () => true) {
    this.#limit = limit
    this.#isShown = isShown
  }

  /** Whether a hit of this rank would be kept. */
  takes(kind: SearchKind, rank: number): boolean {
    const known = this.#byKind.get(kind)
    return known === undefined || known.length < this.#limit || rank < known.at(-1)!.rank
  }

  add(found: Ranked): void {
    if (!this.#isShown(found.kind, found.hit)) return
    const known = this.#byKind.get(found.kind) ?? []
    this.#byKind.set(found.kind, known)
    if (known.some(({ hit }) => hit.id === found.hit.id)) return
    const place = known.findIndex(({ rank }) => found.rank < rank)
    known.splice(place < 0 ? known.length : place, 0, found)
    if (known.length > this.#limit) known.pop()
  }

  /** Returns the kinds with hits, the one with the best hit first; `order` decides between kinds that match alike. */
  groups(order: readonly SearchKind[]): { kind: SearchKind; hits: SearchHit[] }[] {
    return order
      .flatMap((kind) => this.#byKind.get(kind) ?? [])
      .filter(({ kind }, index, all) => all.findIndex((one) => one.kind === kind) === index)
      .toSorted((one, other) => withoutLength(one.rank) - withoutLength(other.rank))
      .map(({ kind }) => ({ kind, hits: this.#byKind.get(kind)!.map(({ hit }) => hit) }))
  }
}

/** What is indexed: a hit, and the text whose words find it. */
export interface Entry {
  hit: SearchHit
  text: string
}

/**
 * Entries of a kind and their words, in as little memory as that takes. Each distinct word is compared once, since entries
 * share most of theirs; an entry costs a look at the results of its words.
 */
export class SearchIndex {
  readonly #kind: SearchKind
  readonly #hits: readonly SearchHit[]
  readonly #words: readonly string[]
  readonly #letters: Int32Array
  /** The places of the words of all entries, one entry after the other, and where those of each entry end. */
  readonly #places: Uint32Array
  readonly #ends: Uint32Array

  constructor(kind: SearchKind, entries: readonly Entry[]) {
    const places: number[] = []
    const placeOf = new Map<string, number>()
    this.#ends = Uint32Array.from(entries, ({ text }) => {
      for (const word of wordsOf(text, maxWords)) {
        let place = placeOf.get(word)
        if (place === undefined) {
          place = placeOf.size
          placeOf.set(word, place)
        }
        places.push(place)
      }
      return places.length
    })
    this.#kind = kind
    this.#hits = entries.map(({ hit }) => hit)
    // Copied, because a part of a text keeps all of it in memory.
    this.#words = JSON.parse(JSON.stringify([...placeOf.keys()]))
    this.#letters = Int32Array.from(this.#words, lettersOf)
    this.#places = Uint32Array.from(places)
  }

  get size(): number {
    return this.#hits.length
  }

  /** About the bytes that it occupies: an object and two texts for each entry, a text for each word. */
  get bytes(): number {
    const names = this.#hits.reduce((total, { id, title }) => total + 120 + id.length + title.length, 0)
    const words = this.#words.reduce((total, { length }) => total + 28 + length, 0)
    return names + words + 4 * (this.#ends.length + this.#places.length)
  }

  /** Adds the entries that contain all words, or their like, to `best`. */
  *find(query: Asked, best: BestHits, budget: WorkBudget): Slices<void> {
    if (query.words.length === 0) return
    const costs: Uint8Array[] = []
    for (const word of query.words) {
      const ofWord = yield* this.#compare(word, budget)
      if (ofWord === undefined) return
      costs.push(ofWord)
    }
    let first = 0
    for (let entry = 0; entry < this.#hits.length; entry++) {
      const end = this.#ends[entry]!
      budget.count(10 + costs.length * (end - first) * 2)
      if (budget.isSliceOver()) yield
      const cost = this.#costOf(costs, first, end)
      first = end
      if (cost === undefined) continue
      const hit = this.#hits[entry]!
      const rank = rankOf(query, hit, cost)
      budget.count(100)
      if (best.takes(this.#kind, rank)) best.add({ kind: this.#kind, hit, rank })
    }
  }

  /** Compares a word of the query with all known ones; undefined if none matches. */
  *#compare(word: AskedWord, budget: WorkBudget): Slices<Uint8Array | undefined> {
    let costs: Uint8Array | undefined
    for (let place = 0; place < this.#words.length; place++) {
      const cost = matchCost(word, this.#words[place]!, this.#letters[place]!)
      // About a tenth of the words share enough letters for a comparison letter by letter.
      budget.count(10 + word.word.length * 2)
      if (budget.isSliceOver()) yield
      if (cost === undefined) continue
      costs ??= new Uint8Array(this.#words.length).fill(noMatch)
      costs[place] = cost
    }
    return costs
  }

  #costOf(costs: readonly Uint8Array[], first: number, end: number): number | undefined {
    let total = 0
    for (const ofWord of costs) {
      let least = noMatch
      for (let at = first; at < end; at++) least = Math.min(least, ofWord[this.#places[at]!]!)
      if (least === noMatch) return undefined
      total += least
    }
    return total
  }
}
