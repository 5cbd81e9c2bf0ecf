import type { HitForm } from '@wardline/contract'

interface HoneypotsTable {
  id: string
  /** `*` for a path that is a decoy for every agent. */
  instance_id: string
  type: 'api_key' | 'file_path'
  key_type: string | null
  path: string | null
  /** Whether the path matches other paths too. Such decoys are compared one by one. */
  is_pattern: 0 | 1
  label: string | null
  created_at: number
  deleted_at: number | null
  planted_at: number | null
  /** Name of the key that marked the decoy as planted. */
  planted_by: string | null
  planted_note: string | null
  planted_file: string | null
  /** First hit that was neither a test nor ignored. Kept when hits expire. */
  tripped_at: number | null
  /** First such hit by another instance. */
  leaked_at: number | null
  retired_at: number | null
  replaced_by: string | null
}

/** HMACs of the forms of a decoy's key or path, for matching. The key itself is never stored. */
interface HoneypotFingerprintsTable {
  digest: string
  honeypot_id: string
}

interface HoneypotHitsTable {
  id: string
  honeypot_id: string
  at: number
  reporter: string | null
  key_id: string
  tool: string | null
  ip_address: string | null
  event_id: string
  form: HitForm | null
  is_test: 0 | 1
  is_ignored: 0 | 1
}

interface DecoyIgnoresTable {
  id: string
  tool: string
  reason: string
  until_at: number
  created_at: number
  created_by: string
}

export interface HoneypotTables {
  honeypots: HoneypotsTable
  honeypot_fingerprints: HoneypotFingerprintsTable
  honeypot_hits: HoneypotHitsTable
  decoy_ignores: DecoyIgnoresTable
}
