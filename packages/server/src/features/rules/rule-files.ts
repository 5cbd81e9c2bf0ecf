import { eventTypes, type RuleMode } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { DocumentFiles, type DocumentFolder, type FileParts } from './document-files.ts'
import { readListRows } from './list-queries.ts'
import { readRules } from './queries.ts'
import { assertTested } from './rule-text.ts'
import { deleteFileRule, readWithLists, storeFileRule } from './rules.ts'

export type RuleFiles = DocumentFolder

/** Rules in the folder WARDLINE_RULES_DIR. */
export function createRuleFiles(deps: Deps, parts: FileParts): DocumentFolder {
  const { db } = deps.database
  return new DocumentFiles(deps, parts, {
    noun: 'rule',
    setting: 'WARDLINE_RULES_DIR',
    folder: deps.config.rulesDir,
    eventType: eventTypes.ruleFileInvalid,
    // A rule may name a list that is created later.
    context: async () => (await readListRows(db)).map(({ name, version }) => [name, version]),
    read: async (text) => {
      const read = await readWithLists(db, text)
      const { id, mode = 'observe' satisfies RuleMode } = read.rule.document
      assertTested(read, mode)
      return { id, read: { ...read, mode } }
    },
    store: (changing, { read, ...file }) => storeFileRule(changing, { ...file, mode: read.mode, read }),
    stored: () => readRules(db),
    remove: deleteFileRule,
  })
}
