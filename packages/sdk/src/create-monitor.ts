import { createMonitorWith } from './agent-monitor.ts'
import type { Monitor, MonitorOptions } from './monitor.ts'

/** A monitor for one agent. Throws TypeError when an option is invalid; connects only with start(). */
export function createMonitor(options: MonitorOptions): Monitor {
  return createMonitorWith(options, {})
}
