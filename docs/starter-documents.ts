import { parseRules } from '../packages/server/src/features/rules/language/rule.ts'
import { starterRules } from '../packages/server/src/features/rules/starter-rules.ts'

/** Text of documents.json: the starter rules without tests, by name. */
export const starterDocumentsText = (): string => {
  const parsed = starterRules().map(({ name, text }) => {
    const { tests: _, ...document } = parseRules(text).rules[0]!.rule.document
    return [name, document]
  })
  return `${JSON.stringify(Object.fromEntries(parsed), null, 2)}\n`
}
