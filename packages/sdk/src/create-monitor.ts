import { createMonitorWith } from './agent-monitor.ts'
import type { Monitor, MonitorOptions } from './monitor.ts'

/**
 * Creates the monitor of one agent, without connecting; start() does that. Throws TypeError when an option is invalid.
 */
export function createMonitor(options: MonitorOptions): Monitor {
  return createMonitorWith(options, {})
}
