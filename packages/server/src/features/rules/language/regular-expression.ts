import { createRequire } from 'node:module'
import { ruleLimits } from '@wardline/contract'
import { type ExpressionMatcher, matcherOf } from './expression-matcher.ts'
import { ExpressionFault, parseExpression } from './expression-syntax.ts'
import { shown } from './fault.ts'

// Loaded with the first expression, so that a service without rules starts sooner and uses less memory.
const load = createRequire(import.meta.url)

/** Compiles a regular expression that reads whole texts at a known cost, or returns why it cannot. */
export function compileExpression(pattern: string, flags: ReadonlySet<string>): ExpressionMatcher | string {
  const name = `The regular expression ${shown(pattern)}`
  const { expressionLength, expressionPasses } = ruleLimits
  if (pattern.length > expressionLength) return `${name} has more than ${expressionLength} characters.`
  const { RE2JS } = load('re2js') as typeof import('re2js')
  try {
    const matcher = matcherOf(parseExpression(pattern, flags, RE2JS))
    if (matcher.passes <= expressionPasses) return matcher
    return `${name} takes ${Math.ceil(matcher.passes)} passes over a text; at most ${expressionPasses} are possible. Shorten repetitions of groups, or split it.`
  } catch (fault) {
    if (fault instanceof ExpressionFault) return `${name} ${fault.message}`
    const reason = (fault as Error).message.replace(/^error parsing regexp: /, '').replace(/\.$/, '')
    return `${name} cannot be compiled: ${shown(reason)}. Look-around and back-references are not supported.`
  }
}
