export { createMonitor } from './create-monitor.ts'
export { CallDenied, type Denial, type DenialCode, WardlineDenied } from './denied.ts'
export { type FaultCode, MonitorError } from './faults.ts'
export type * from './monitor.ts'
