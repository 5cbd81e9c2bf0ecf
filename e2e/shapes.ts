/** Response bodies of the service, as clients know them. */

export type Severity = 'info' | 'warning' | 'critical' | 'breach'

export type SeverityCounts = Record<Severity, number>

export interface EventRow {
  id: string
  seq: number
  severity: Severity
  source: string
  by_service: boolean
  event_type: string
  description: string
  instance_id: string | null
  session_id: string | null
  metadata: Record<string, unknown> | null
  ip_address: string | null
  observed_ip_address: string | null
  created_at: string
}

export interface EventPage {
  events: EventRow[]
  next: string | null
}

export interface Created {
  ok: true
  id: string
}

export interface BatchAnswer {
  ok: boolean
  ids: (string | null)[]
  errors: { index: number; error: string }[]
}

export interface InstanceView {
  id: string
  name: string
  status: 'active' | 'suspended' | 'offline'
  last_heartbeat: string
  secondsAgo: number
  suspension_reason: string | null
}

export interface StatusView {
  instances: InstanceView[]
  stats: SeverityCounts
  toolCalls: Record<string, number>
}

export interface ControlMessage {
  instance_id: string
  action: 'suspend' | 'resume'
  reason?: string | null
  version: number
  issued_at: string
  signature: string
}

export interface Decoy {
  ok: true
  id: string
  type: 'api_key' | 'file_path'
  keyType?: string
  path?: string
  createdAt: string
  key?: string
}

export interface DecoyList {
  honeypots: { id: string; type: string; keyType?: string | null; createdAt: string }[]
}

export interface CreatedKey {
  ok: true
  id: string
  key: string
}

export type StreamBody =
  | { type: 'heartbeat' }
  | { type: 'event'; data: EventRow }
  | { type: 'stats'; data: SeverityCounts }

export interface TrustView {
  generated_at: string
  risk_score: number
  risk_tier: string
  risk_tier_label: string
  monitoring: {
    scout_active: boolean
    agents_protected: number
    agents_active: number
    agents_suspended: number
    last_scan_at: string | null
    last_scan_relative: string
    last_heartbeat_at: string | null
  }
  metrics: {
    injection_blocks_24h: number
    runtime_incidents_30d: number
    events_today: number
    threats_24h: number
    blocked_24h: number
  }
  attestations: { type: string; title: string; summary: string; hash_preview: string; at: string; on_chain?: unknown }[]
  identity: Record<string, unknown>
  verification: {
    unified_risk_score: number
    unified_risk_tier: string
    unified_risk_tier_label: string
    scores: Record<string, unknown>
    on_chain: Record<string, unknown>
    spec_url: string
  }
  chain: Record<string, string>
  source: string
}
