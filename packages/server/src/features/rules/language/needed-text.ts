import type { CharacterSet } from './character-set.ts'
import type { Expression } from './expression-syntax.ts'
import { folded } from './fold.ts'

/** A text in the form in which it is searched for what an expression needs. */
export interface PlainText {
  /** Without the difference between cases. */
  text: string
  isAscii: boolean
}

/** What every match contains: one of the texts in plain form, or, if `isWide`, a character above ASCII. */
export interface Needed {
  texts: readonly string[]
  isWide: boolean
}

/** Each is searched for, so more would cost usual texts as much as matching does. */
const maxTexts = 3
/** Sets with more members, such as `\pL`, have more than one letter. */
const maxMembers = 8
/** Longer texts are not much rarer. */
const longEnough = 4

const unknown: Needed = { texts: [''], isWide: false }

const ascii = /^[\0-\x7f]*$/
/** The long s is a case of s too. Character by character, so that the form of a text has those of its parts. */
const plain = (text: string): string => folded(text).replaceAll('ſ', 's')

export function plainText(text: string): PlainText {
  const isAscii = ascii.test(text)
  return { text: isAscii ? text.toLowerCase() : plain(text), isAscii }
}

/** Whether a text may have a match. Most texts do not have what an expression needs, and are not read further. */
export const hasNeeded = ({ texts, isWide }: Needed, given: PlainText): boolean =>
  (isWide && !given.isAscii) || texts.some((text) => given.text.includes(text))

function membersOf({ ranges }: CharacterSet): number[] | undefined {
  const members: number[] = []
  for (let at = 0; at < ranges.length; at += 2) {
    for (let code = ranges[at]!; code <= ranges[at + 1]!; code += 1) {
      if (members.length === maxMembers) return undefined
      members.push(code)
    }
  }
  return members
}

function ofSet(set: CharacterSet): Needed {
  const forms = new Set(membersOf(set)?.map((code) => plain(String.fromCodePoint(code))))
  if (forms.size === 1 || set.ranges.length === 0) return { texts: [...forms], isWide: false }
  return set.ranges[0]! > 0x7f ? { texts: [], isWide: true } : unknown
}

const shortestOf = ({ texts }: Needed) => Math.min(...texts.map(({ length }) => length))
const countOf = ({ texts, isWide }: Needed) => texts.length + Number(isWide)

/** The rarer one, as far as lengths say; of equally rare ones that with fewer texts. */
function better(one: Needed, other: Needed): Needed {
  const [first, second] = [shortestOf(one), shortestOf(other)]
  const rarer = Math.min(longEnough, second) - Math.min(longEnough, first)
  const fewer = countOf(one) - countOf(other)
  return (rarer || fewer || second - first) > 0 ? other : one
}

function ofSequence(parts: readonly Expression[]): Needed {
  let best = unknown
  let run = ''
  for (const part of parts) {
    const needed = neededOf(part)
    run = part.kind === 'set' && needed.texts.length === 1 && needed !== unknown ? run + needed.texts[0] : ''
    best = better(best, run === '' ? needed : { texts: [run], isWide: false })
  }
  return best
}

function ofChoice(branches: readonly Expression[]): Needed {
  const all = branches.map(neededOf)
  const texts = new Set(all.flatMap((needed) => needed.texts))
  return texts.size > maxTexts || texts.has('')
    ? unknown
    : { texts: [...texts], isWide: all.some(({ isWide }) => isWide) }
}

/** Returns what every match of an expression contains; the empty text if nothing is known. */
export function neededOf(expression: Expression): Needed {
  switch (expression.kind) {
    case 'set':
      return ofSet(expression.set)
    case 'place':
      return unknown
    case 'sequence':
      return ofSequence(expression.parts)
    case 'choice':
      return ofChoice(expression.branches)
    case 'repeat':
      return expression.min === 0 ? unknown : neededOf(expression.part)
  }
}
