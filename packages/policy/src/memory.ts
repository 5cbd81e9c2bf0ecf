import { createHash, randomBytes } from 'node:crypto'
import { Tally } from './tally.ts'
import { leavesOf, wholeValues } from './values.ts'
import { normalized, provesNothing, withoutEnd, wordsOf } from './words.ts'

/**
 * Length of a hash in base64: 48 bits of SHA-256 with a random key of the session. Who writes a text cannot look for one
 * that equals another, and what is stored does not say what was written.
 */
const hashLength = 8
/** Of a hash and the place of a tool in two digits. */
const valueLength = hashLength + 2
/** Together 215 KiB of hashes; with tools and counts a session stays below 256 KiB. */
const maxWords = 14_000
const maxValues = 6_000
const maxAddresses = 6_000
/** Tools that answered, and the characters of their names. A session of more counts as one that read untrusted text. */
const maxTools = 128
const maxToolText = 8_000
/** Characters of an answer that are read for addresses. */
const maxRead = 1_048_576
/** Characters of arguments among which an echo is looked for. */
const maxAsked = 4_000
/** Words of a destination. One of more would take long to look for: it counts as unproven. */
const maxDestination = 2_000

/** A tool that answered, and which arguments it was ever given, of those on which labels depend. */
export interface AnsweredTool {
  name: string
  args: ReadonlySet<string>
}

/** What is stored between two processes that share a session. */
export interface StoredMemory {
  version: 1
  key: string
  words: string
  /** Hashes of values of directories, each followed by the place in `tools`, in base 36, of the one that answered it. */
  values: string
  addresses: string
  tools: [name: string, args: string[]][]
  /** Whether more tools answered than are stored. */
  more: boolean
  /** Calls and amounts that limits have counted: times and amounts in turn. */
  counts: Record<string, number[]>
}

/**
 * What a session has met: the words of its prompts, the whole values that directories answered, the addresses that it saw,
 * which tools answered, and what limits have counted. Texts are kept as hashes. What the model says is never remembered. It
 * holds facts, which each policy judges by its own labels: a corrected label applies to what was read before.
 */
export class SessionMemory {
  readonly #key: string
  readonly #tools = new Map<string, Set<string>>()
  #toolText = 0
  #hasMoreTools = false
  #words = ''
  readonly #values = new Map<string, number>()
  readonly #addresses = new Set<string>()
  #tally = new Tally()

  /** What is stored but cannot be read counts as a session that read untrusted text. */
  constructor(stored?: StoredMemory) {
    if (stored === undefined) {
      this.#key = randomBytes(16).toString('base64url')
      return
    }
    const isReadable = isStoredMemory(stored)
    this.#key = isReadable ? stored.key : randomBytes(16).toString('base64url')
    this.#hasMoreTools = !isReadable || stored.more
    if (!isReadable) return
    for (const [name, args] of stored.tools) this.#answered(name, args)
    this.#words = stored.words
    for (const one of chunksOf(stored.values, valueLength)) {
      this.#values.set(one.slice(0, hashLength), Number.parseInt(one.slice(hashLength), 36))
    }
    for (const hash of chunksOf(stored.addresses, hashLength)) this.#addresses.add(hash)
    this.#tally = new Tally(stored.counts)
  }

  stored(): StoredMemory {
    return {
      version: 1,
      key: this.#key,
      words: this.#words,
      values: [...this.#values].map(([hash, tool]) => hash + tool.toString(36).padStart(2, '0')).join(''),
      addresses: [...this.#addresses].join(''),
      tools: [...this.#tools].map(([name, args]) => [name, [...args]]),
      more: this.#hasMoreTools,
      counts: this.#tally.stored(),
    }
  }

  /** Returns an empty memory with the same key: what is remembered there can be added here. */
  emptied(): SessionMemory {
    const empty = { words: '', values: '', addresses: '', tools: [], more: false, counts: {} }
    return new SessionMemory({ version: 1, key: this.#key, ...empty })
  }

  /** Adds what another process remembered of the session since. What cannot be read counts as in the constructor. */
  add(stored: StoredMemory): void {
    if (!isStoredMemory(stored) || stored.key !== this.#key) {
      this.#hasMoreTools = true
      return
    }
    this.#hasMoreTools ||= stored.more
    for (const [name, args] of stored.tools) this.#answered(name, args)
    this.#words = (this.#words + stored.words).slice(-maxWords * hashLength)
    const places = new Map([...this.#tools.keys()].map((name, place) => [name, place]))
    for (const one of chunksOf(stored.values, valueLength)) {
      const place = places.get(stored.tools[Number.parseInt(one.slice(hashLength), 36)]?.[0] ?? '')
      if (place !== undefined) this.#keepValue(one.slice(0, hashLength), place)
    }
    for (const hash of chunksOf(stored.addresses, hashLength)) this.#keepAddress(hash)
    this.#tally.addAll(stored.counts)
  }

  /** Whether more tools answered than are remembered. */
  get hasMoreTools(): boolean {
    return this.#hasMoreTools
  }

  /** Returns the first tool that answered and meets a condition, undefined if none does. */
  answered(condition: (tool: AnsweredTool) => boolean): string | undefined {
    for (const [name, args] of this.#tools) if (condition({ name, args })) return name
    return undefined
  }

  /** Remembers what a person wrote. */
  prompt(text: string): void {
    // An empty word, so that no destination is made up from the end of one prompt and the beginning of the next.
    const words = ['', ...wordsOf(text).slice(-maxWords)].map((word) => this.#hash(word)).join('')
    this.#words = (this.#words + words).slice(-maxWords * hashLength)
    this.#seeAddresses(text)
  }

  /**
   * Remembers the answer of a call. `args`: what it was asked; `conditional`: those of its arguments on which labels depend;
   * `isDirectory`: whether any policy trusts the values of this answer.
   */
  learn(
    tool: string,
    { args, conditional, isDirectory }: { args: unknown; conditional: readonly string[]; isDirectory: boolean },
    answer: unknown,
  ): void {
    this.#answered(tool, conditional)
    const texts = typeof answer === 'string' ? [answer] : leavesOf(answer)
    for (const text of texts) this.#seeAddresses(text)
    const place = [...this.#tools.keys()].indexOf(tool)
    if (!isDirectory || place < 0) return
    // A directory repeats what it was asked for, or a part of it, which proves nothing.
    const asked = leavesOf(args)
    if (asked.reduce((sum, text) => sum + text.length, 0) > maxAsked) return
    const askedWords = asked.map(inWords)
    const isEcho = (value: string) => askedWords.some((text) => text.includes(inWords(value)))
    for (const value of wholeValues(answer)) if (!isEcho(value)) this.#keepValue(this.#hash(value), place)
  }

  /** Whether a destination stands in a prompt, or is a whole value that a directory answered. */
  proves(destination: string, isDirectory: (tool: AnsweredTool) => boolean): boolean {
    const words = wordsOf(destination)
    if (words.length === 0 || words.length > maxDestination || provesNothing(words)) return false
    const place = this.#values.get(this.#hash(normalized(destination)))
    const source = place === undefined ? undefined : [...this.#tools][place]
    if (source && isDirectory({ name: source[0], args: source[1] })) return true
    const sequence = words.map((word) => this.#hash(word)).join('')
    for (let at = this.#words.indexOf(sequence); at >= 0; at = this.#words.indexOf(sequence, at + 1)) {
      if (at % hashLength === 0) return true
    }
    return false
  }

  /** Whether an address stood in a prompt or in any answer. */
  saw(address: string): boolean {
    return this.#addresses.has(this.#hash(addressOf(address)))
  }

  /** Returns what a limit has counted in the window of milliseconds that ends at a time. */
  counted(limit: string, withinMs: number, at: number): number {
    return this.#tally.sum(this.#hash(limit), withinMs, at)
  }

  count(limit: string, withinMs: number, at: number, amount: number): void {
    this.#tally.add(this.#hash(limit), withinMs, at, amount)
  }

  #answered(name: string, args: readonly string[]): void {
    const given = this.#tools.get(name) ?? new Set()
    const isNew = !this.#tools.has(name)
    const further = args.filter((arg) => !given.has(arg))
    const length = (isNew ? name.length : 0) + further.reduce((sum, arg) => sum + arg.length, 0)
    if ((isNew && this.#tools.size >= maxTools) || this.#toolText + length > maxToolText) {
      this.#hasMoreTools = true
      return
    }
    this.#toolText += length
    for (const arg of further) given.add(arg)
    this.#tools.set(name, given)
  }

  #keepValue(hash: string, tool: number): void {
    this.#values.delete(hash)
    this.#values.set(hash, tool)
    // The oldest goes first: what is forgotten is asked for.
    if (this.#values.size > maxValues) this.#values.delete(this.#values.keys().next().value!)
  }

  #seeAddresses(text: string): void {
    let left = maxAddresses
    for (const [address] of text.slice(0, maxRead).matchAll(/\b(?:https?:\/\/|www\.)[^\s"'<>`|\\^{}]{1,2000}/giu)) {
      if (left-- <= 0) return
      this.#keepAddress(this.#hash(addressOf(address)))
    }
  }

  #keepAddress(hash: string): void {
    this.#addresses.delete(hash)
    this.#addresses.add(hash)
    if (this.#addresses.size > maxAddresses) this.#addresses.delete(this.#addresses.values().next().value!)
  }

  #hash(text: string): string {
    return createHash('sha256').update(this.#key).update(text).digest('base64url').slice(0, hashLength)
  }
}

/** The words of a text, each between blanks. */
const inWords = (text: string): string => ` ${wordsOf(text).join(' ')} `

/** An address as it is compared: without scheme and fragment, and without the punctuation that ends a sentence. */
const addressOf = (text: string): string => {
  const address = normalized(text)
    .replace(/^https?:\/\//, '')
    .replace(/#.*$/s, '')
  return withoutEnd(address, '.,;:!?)]/')
}

function chunksOf(text: string, length: number): string[] {
  return Array.from({ length: Math.floor(text.length / length) }, (_, at) => text.slice(at * length, (at + 1) * length))
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** Whether a value that was stored outside this process can be read; its bounds hold when it is read. */
function isStoredMemory(value: unknown): value is StoredMemory {
  if (typeof value !== 'object' || value === null) return false
  const { version, key, words, values, addresses, tools, more, counts } = value as Partial<StoredMemory>
  return (
    version === 1 &&
    isText(key) &&
    isText(words) &&
    words.length <= maxWords * hashLength &&
    isText(addresses) &&
    typeof more === 'boolean' &&
    isText(values) &&
    Array.isArray(tools) &&
    tools.every((one) => Array.isArray(one) && isText(one[0]) && Array.isArray(one[1]) && one[1].every(isText)) &&
    typeof counts === 'object' &&
    counts !== null &&
    Object.values(counts).every((list) => Array.isArray(list) && list.every(Number.isFinite))
  )
}
