import { createMonitorWith } from './agent-monitor.ts'
import type { Monitor, MonitorOptions } from './monitor.ts'

/** Creates a monitor for one agent; start() connects it. Throws TypeError if an option is invalid. */
export function createMonitor(options: MonitorOptions): Monitor {
  return createMonitorWith(options, {})
}
