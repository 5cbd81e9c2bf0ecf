import { createHash, randomBytes } from 'node:crypto'
import type { Label } from './labels.ts'
import { leavesOf, wholeValues } from './values.ts'
import { normalized, provesNothing, withoutEnd, wordsOf } from './words.ts'

/**
 * Length of a hash in base64: 48 bits of SHA-256 with a random key of the session. Who writes a text cannot look for one
 * that equals another, and what is stored does not say what was written.
 */
const hashLength = 8
/** Together 252 KiB of hashes: a session stays below 256 KiB. */
const maxWords = 16_000
const maxValues = 8_000
const maxAddresses = 8_000
/** Characters of an answer that are read for addresses. */
const maxRead = 1_048_576

/** What is stored between two processes that share a session. */
export interface StoredMemory {
  version: 1
  key: string
  labels: Partial<Record<Label, string>>
  words: string
  values: string
  addresses: string
}

/**
 * What a session has met: the words of its prompts, the whole values that directories answered, the addresses that it saw,
 * and which labels its tools had. Texts are kept as hashes. What the model says is never remembered.
 */
export class SessionMemory {
  readonly #key: string
  /** By label the first tool that had it. */
  readonly #labels: Map<Label, string>
  #words: string
  readonly #values: Set<string>
  readonly #addresses: Set<string>

  constructor(stored?: StoredMemory) {
    this.#key = stored?.key ?? randomBytes(16).toString('base64url')
    this.#labels = new Map(Object.entries(stored?.labels ?? {}) as [Label, string][])
    this.#words = stored?.words ?? ''
    this.#values = new Set(chunksOf(stored?.values ?? ''))
    this.#addresses = new Set(chunksOf(stored?.addresses ?? ''))
  }

  stored(): StoredMemory {
    return {
      version: 1,
      key: this.#key,
      labels: Object.fromEntries(this.#labels),
      words: this.#words,
      values: [...this.#values].join(''),
      addresses: [...this.#addresses].join(''),
    }
  }

  /** Returns the first tool that had a label, undefined if none had. */
  met(label: Label): string | undefined {
    return this.#labels.get(label)
  }

  /** Remembers what a person wrote. */
  prompt(text: string): void {
    // An empty word, so that no destination is made up from the end of one prompt and the beginning of the next.
    const words = ['', ...wordsOf(text)].map((word) => this.#hash(word)).join('')
    this.#words = (this.#words + words).slice(-maxWords * hashLength)
    this.#seeAddresses(text)
  }

  /** Remembers the answer of a call that had these labels. */
  learn(tool: string, args: unknown, labels: ReadonlySet<Label>, answer: unknown): void {
    for (const label of labels) if (!this.#labels.has(label)) this.#labels.set(label, tool)
    const texts = typeof answer === 'string' ? [answer] : leavesOf(answer)
    for (const text of texts) this.#seeAddresses(text)
    if (!labels.has('directory')) return
    // A directory repeats what it was asked for, which proves nothing.
    const asked = new Set(leavesOf(args).map(normalized))
    for (const value of wholeValues(answer)) if (!asked.has(value)) keep(this.#values, this.#hash(value), maxValues)
  }

  /** Whether a destination stands in a prompt, or is a whole value of a directory's answer. */
  proves(destination: string): boolean {
    const words = wordsOf(destination)
    if (words.length === 0 || provesNothing(words)) return false
    if (this.#values.has(this.#hash(normalized(destination)))) return true
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

  #seeAddresses(text: string): void {
    for (const [address] of text.slice(0, maxRead).matchAll(/\b(?:https?:\/\/|www\.)[^\s"'<>`|\\^{}]{1,2000}/giu)) {
      keep(this.#addresses, this.#hash(addressOf(address)), maxAddresses)
    }
  }

  #hash(text: string): string {
    return createHash('sha256').update(this.#key).update(text).digest('base64url').slice(0, hashLength)
  }
}

/** An address as it is compared: without scheme and fragment, and without the punctuation that ends a sentence. */
const addressOf = (text: string): string => {
  const address = normalized(text)
    .replace(/^https?:\/\//, '')
    .replace(/#.*$/s, '')
  return withoutEnd(address, '.,;:!?)]/')
}

function keep(set: Set<string>, hash: string, max: number): void {
  set.delete(hash)
  set.add(hash)
  // The oldest goes first: what is forgotten is asked for.
  if (set.size > max) set.delete(set.values().next().value!)
}

function chunksOf(text: string): string[] {
  return Array.from({ length: Math.floor(text.length / hashLength) }, (_, at) =>
    text.slice(at * hashLength, (at + 1) * hashLength),
  )
}
