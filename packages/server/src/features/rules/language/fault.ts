/** A fault in the text of a rule, with its place. */
export interface RuleFault {
  /** From 1. */
  line: number
  column: number
  /** One plain sentence. */
  sentence: string
}

/** The way to a value in a document: names of fields and places in lists. */
export type Path = readonly (string | number)[]

/** Collects what is wrong with one document. */
export interface Faults {
  /** `offset`: characters into the value at the path, for a place within a text. */
  add(path: Path, sentence: string, offset?: number): void
}

/** Text of others in a sentence: no more of it than helps. */
export const shown = (text: unknown): string => {
  const full = typeof text === 'string' ? text : String(JSON.stringify(text))
  return full.length > 60 ? `${full.slice(0, 57)}…` : full
}
