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
}

export interface HoneypotTables {
  honeypots: HoneypotsTable
  honeypot_fingerprints: HoneypotFingerprintsTable
  honeypot_hits: HoneypotHitsTable
}
