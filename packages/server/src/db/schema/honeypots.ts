import type { HitForm } from '@wardline/contract'

interface HoneypotsTable {
  id: string
  instance_id: string
  type: 'api_key' | 'file_path'
  key_type: string | null
  path: string | null
  /** The path covers more than itself: such decoys are compared one by one. */
  is_pattern: 0 | 1
  label: string | null
  created_at: number
  deleted_at: number | null
  planted_at: number | null
  /** Name of the key that noted it. */
  planted_by: string | null
  planted_note: string | null
  planted_file: string | null
  /** The first hit that was neither a test nor ignored: hits are forgotten, the state is not. */
  tripped_at: number | null
  /** The first of these by another instance. */
  leaked_at: number | null
  retired_at: number | null
  replaced_by: string | null
}

/** What a decoy is found by: HMACs of the forms of its key or path. The value of a key is stored nowhere. */
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
