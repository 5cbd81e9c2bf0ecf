import { type PolicyDocument, type PolicyMode, storedPolicyLimits } from '@wardline/contract'
import {
  deliveredDocument,
  type ListedTool,
  lintPolicy,
  type Policy,
  type PolicyFault,
  readPolicy,
} from '@wardline/policy'
import { AppError } from '../../errors.ts'
import { readText } from '../rules/language/document.ts'
import type { Path, RuleFault } from '../rules/language/fault.ts'
import { documentProblem } from '../rules/rule-text.ts'

/** A policy as received: a document or its text. */
export type GivenPolicy = PolicyDocument | string

/** A policy without faults, with its text. */
export interface ReadPolicy {
  policy: Policy
  text: string
  format: 'yaml' | 'json'
  /** The mode in the document; undefined = none is given. */
  mode: PolicyMode | undefined
  /** What agents get, as JSON. */
  document: string
}

/** Splits a place such as `rules[2].when.recipients|not_host`, where names may contain dots, by the names that are there. */
export function pathOf(document: unknown, place: string): Path {
  const path: (string | number)[] = []
  let value = document
  let rest = place
  while (rest !== '' && typeof value === 'object' && value !== null) {
    const [entry, index] = /^\[(\d+)\]/.exec(rest) ?? []
    const names = Object.keys(value).filter(
      (name) => rest.startsWith(name) && /^(?:$|\.|\[)/.test(rest.slice(name.length)),
    )
    const step = entry === undefined ? names.sort((one, other) => other.length - one.length)[0] : Number(index)
    if (step === undefined) break
    path.push(step)
    value = (value as Record<string | number, unknown>)[step]
    rest = rest.slice((entry ?? String(step)).length).replace(/^\./, '')
  }
  return path
}

const textOf = (given: GivenPolicy): string => (typeof given === 'string' ? given : JSON.stringify(given, null, 2))

/** Faults that a person corrects at once; 200 rules that shadow each other have 10,000. */
const maxFaults = 100

interface Linted {
  policy: Policy | undefined
  document: PolicyDocument
  text: string
  faults: RuleFault[]
}

/**
 * Finds what is wrong with a policy. `tools`: for arguments that a tool does not have. Throws AppError `invalid` for a text
 * that is empty or too long.
 */
export function lintText(given: GivenPolicy, tools: readonly ListedTool[], now: number): Linted {
  const text = textOf(given)
  if (text.trim() === '') throw new AppError('invalid', 'The policy is empty: send a document in YAML or JSON.')
  const bytes = Buffer.byteLength(text)
  if (bytes > storedPolicyLimits.textBytes) {
    throw new AppError('invalid', `The policy has ${bytes} bytes; the maximum is ${storedPolicyLimits.textBytes}.`)
  }
  const { documents, faults: unreadable } = readText(text, 'policy')
  const [source, second] = documents
  if (second) unreadable.push(second.fault([], 'The text has a second document: a policy is one document.'))
  if (unreadable.length > 0 || !source) return { policy: undefined, document: {}, text, faults: unreadable }
  const document = source.value as PolicyDocument
  const placed = ({ path, message }: PolicyFault) =>
    source.fault(pathOf(document, path), `${path === '' ? 'The document' : path} ${message}`)
  const { policy, faults } = readPolicy(document)
  if (faults.length > 0) return { policy: undefined, document, text, faults: faults.slice(0, maxFaults).map(placed) }
  return { policy, document, text, faults: lintPolicy(policy, tools, now).slice(0, maxFaults).map(placed) }
}

/** Reads a policy. Throws AppError `invalid` with the position of each fault. */
export function readGiven(given: GivenPolicy, tools: readonly ListedTool[], now: number): ReadPolicy {
  const { policy, document, text, faults } = lintText(given, tools, now)
  if (faults.length > 0 || !policy) throw documentProblem(faults)
  return {
    policy,
    text,
    format: text.trimStart().startsWith('{') ? 'json' : 'yaml',
    mode: document.mode as PolicyMode | undefined,
    document: JSON.stringify(deliveredDocument(document)),
  }
}

/** Returns the document of a stored text as it was sent; empty if a later grammar cannot read it. */
export const documentOf = (text: string): PolicyDocument =>
  (readText(text, 'policy').documents[0]?.value ?? {}) as PolicyDocument
