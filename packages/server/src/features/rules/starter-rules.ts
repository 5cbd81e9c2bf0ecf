import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import type { RuleDocument } from '@wardline/contract'
import { parseRules } from './language/rule.ts'

const folder = new URL('./starter/', import.meta.url)

/** Texts of the starter rules, each with tests. `name` is the file name without its extension. */
export const starterTexts = (): { name: string; text: string }[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.yml'))
    .toSorted()
    .map((file) => ({ name: basename(file, '.yml'), text: readFileSync(new URL(file, folder), 'utf8') }))

/** Documents of the starter rules without tests, by name: `npm run docs` writes them, so that a first start reads no YAML. */
export const starterDocuments = (): Record<string, RuleDocument> =>
  JSON.parse(readFileSync(new URL('documents.json', folder), 'utf8'))

/** Starter rules, each in mode observe. */
export const starterRules = (): { name: string; title: string; text: string }[] =>
  starterTexts().map(({ name, text }) => ({ name, title: parseRules(text).rules[0]!.rule.document.title, text }))
