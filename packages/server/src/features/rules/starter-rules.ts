import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseRules } from './language/rule.ts'

const folder = new URL('./starter/', import.meta.url)

/** Starter rules, each in mode observe and with tests. `name` is the file name without its extension. */
export const starterRules = (): { name: string; title: string; text: string }[] =>
  readdirSync(folder)
    .toSorted()
    .map((file) => {
      const text = readFileSync(new URL(file, folder), 'utf8')
      return { name: basename(file, '.yml'), title: parseRules(text).rules[0]!.rule.document.title, text }
    })
