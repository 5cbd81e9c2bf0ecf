import { eventTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { DocumentFiles, type DocumentFolder, type FileParts } from '../rules/document-files.ts'
import { deleteFilePolicy, storeFilePolicy } from './policies.ts'
import type { PolicySets } from './policy-sets.ts'
import { readGiven } from './policy-text.ts'
import { readPolicies } from './queries.ts'

export type PolicyFiles = DocumentFolder

/** Policies in the folder WARDLINE_POLICY_DIR. */
export function createPolicyFiles(
  deps: Deps,
  parts: FileParts & { policySets: Pick<PolicySets, 'changed'> },
): DocumentFolder {
  const { policySets } = parts
  return new DocumentFiles(deps, parts, {
    noun: 'policy',
    setting: 'WARDLINE_POLICY_DIR',
    folder: deps.config.policyDir,
    eventType: eventTypes.policyFileInvalid,
    context: async () => null,
    read: async (text) => ({ read: readGiven(text, [], deps.clock.now()) }),
    store: (changing, { read, ...file }) =>
      storeFilePolicy({ ...changing, policySets }, { ...file, mode: read.mode ?? 'observe', read }),
    stored: () => readPolicies(deps.database.db),
    remove: (changing, row) => deleteFilePolicy({ ...changing, policySets }, row),
  })
}
