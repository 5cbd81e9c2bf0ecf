import { IndexedText } from './indexed-text.ts'
import { type PlainText, plainText } from './needed-text.ts'

/** The forms of a text, or of the texts of a list, that expressions read. Each is made when it is needed first. */
export class ReadText {
  readonly #texts: readonly string[]
  #plain: PlainText | undefined
  #indexed: IndexedText | undefined

  constructor(texts: readonly string[]) {
    this.#texts = texts
  }

  /** Of a list in one text: what is found across two of them is not found by the expression. */
  get plain(): PlainText {
    this.#plain ??= plainText(this.#texts.join('\n'))
    return this.#plain
  }

  get indexed(): IndexedText {
    this.#indexed ??= new IndexedText(this.#texts)
    return this.#indexed
  }
}

/** Characters of the texts that are kept: those of a few events, because rules read the same texts in turn. */
const maxKept = 100_000
const kept = new Map<string, ReadText>()
let keptCharacters = 0

export function readText(text: string): ReadText {
  const known = kept.get(text)
  if (known) return known
  const read = new ReadText([text])
  keptCharacters += text.length
  if (keptCharacters > maxKept) {
    kept.clear()
    keptCharacters = text.length
  }
  kept.set(text, read)
  return read
}
