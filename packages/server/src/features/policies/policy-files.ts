import { basename, normalize } from 'node:path'
import { eventTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { DocumentFiles, type DocumentFolder, type FileParts } from '../rules/document-files.ts'
import { documentProblem } from '../rules/rule-text.ts'
import { isLabelsName, withLabelFiles } from './label-files.ts'
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
    isPart: isLabelsName,
    read: async (given, readPart) => {
      const { text, faults } = await withLabelFiles(given, (name) => {
        if (basename(normalize(name)) === normalize(name) && !isLabelsName(name)) {
          throw new AppError(
            'invalid',
            'In WARDLINE_POLICY_DIR its name must end in .labels.yaml: others are policies.',
          )
        }
        return readPart(name)
      })
      if (faults.length > 0) throw documentProblem(faults)
      return { read: readGiven(text, [], deps.clock.now()) }
    },
    store: (changing, { read, ...file }) =>
      storeFilePolicy({ ...changing, policySets }, { ...file, mode: read.mode ?? 'observe', read }),
    stored: () => readPolicies(deps.database.db),
    remove: (changing, row) => deleteFilePolicy({ ...changing, policySets }, row),
  })
}
