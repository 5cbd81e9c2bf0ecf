import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseRules } from './language/rule.ts'

const folder = new URL('./starter/', import.meta.url)

/** Rules to begin with: each in mode observe, with tests. `name` is that of its file without ending. */
export const starterRules = (): { name: string; title: string; text: string }[] =>
  readdirSync(folder)
    .toSorted()
    .map((file) => {
      const text = readFileSync(new URL(file, folder), 'utf8')
      return { name: basename(file, '.yml'), title: parseRules(text).rules[0]!.rule.document.title, text }
    })
