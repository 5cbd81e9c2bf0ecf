import { type InstanceStatus, offlineAfterMs } from '@wardline/contract'

/** What an instance is at this moment: suspended, else active for 90 seconds after its last heartbeat, else offline. */
export function deriveStatus(suspended: boolean, lastHeartbeatMs: number, nowMs: number): InstanceStatus {
  if (suspended) return 'suspended'
  return nowMs - lastHeartbeatMs <= offlineAfterMs ? 'active' : 'offline'
}
