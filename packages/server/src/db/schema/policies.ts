import type { PolicyMode } from '@wardline/contract'

interface PoliciesTable {
  id: string
  title: string
  mode: PolicyMode
  version: number
  text: string
  format: 'yaml' | 'json'
  /** The document as JSON, as agents get it: without cases, with packs of labels written out. */
  document: string
  /** Bytes of the document. */
  bytes: number
  /** File name in WARDLINE_POLICY_DIR; null = stored by the API. */
  file: string | null
  created_at: number
  changed_at: number
  /** Key of the last change; null = read from a file. */
  changed_by: string | null
}

/** All versions of a policy's text, kept after deletion because decisions refer to versions. */
interface PolicyVersionsTable {
  policy_id: string
  version: number
  text: string
  format: 'yaml' | 'json'
  created_at: number
  created_by: string | null
}

export interface PolicyTables {
  policies: PoliciesTable
  policy_versions: PolicyVersionsTable
}
