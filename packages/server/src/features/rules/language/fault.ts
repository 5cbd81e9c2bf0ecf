/** A fault in the text of a rule, with its position. */
export interface RuleFault {
  /** Starts at 1. */
  line: number
  column: number
  /** One plain sentence. */
  sentence: string
  /** The file that has the fault, as the text names it; undefined = the text itself. */
  file?: string
}

/** Path to a value in a document: names of fields and indexes in lists. */
export type Path = readonly (string | number)[]

/** Collects the faults of one document. */
export interface Faults {
  /** `offset`: characters into the value at the path, for a position within a text. */
  add(path: Path, sentence: string, offset?: number): void
}

/** Shortens external text for a sentence. */
export const shown = (text: unknown): string => {
  const full = typeof text === 'string' ? text : String(JSON.stringify(text))
  // Not between the two halves of a character.
  return full.length > 60 ? `${full.slice(0, 57).replace(/[\ud800-\udbff]$/, '')}…` : full
}
