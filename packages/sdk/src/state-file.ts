import { close, closeSync, fsync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { MonitorError } from './faults.ts'
import type { Told } from './wire.ts'

/** A fault of the file is returned: the agent goes on without it. */
type Outcome<Value> = { value: Value; fault?: never } | { fault: MonitorError; value?: never }

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

function fileFault(what: string, fault: unknown, help: string): MonitorError {
  return new MonitorError('file', `${what} (${codeOf(fault)}). ${help}`, fault)
}

/** The state that was kept before the agent was restarted; undefined when nothing was kept yet. */
export function readStateFile(file: string, instanceId: string): Outcome<Told | undefined> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (fault) {
    if (codeOf(fault) === 'ENOENT') return { value: undefined }
    const help = 'Until the first contact nothing is known of a suspension; let the agent read its file.'
    return { fault: fileFault('The state file cannot be read', fault, help) }
  }
  try {
    const { instance_id, version, suspended, reason } = JSON.parse(text)
    const fits = instance_id === instanceId && Number.isSafeInteger(version) && version >= 0
    if (fits && typeof suspended === 'boolean') {
      return { value: { version, suspended, reason: typeof reason === 'string' ? reason : null } }
    }
  } catch {
    // Told below.
  }
  return {
    fault: new MonitorError(
      'file',
      `The state file holds no state of the instance ${instanceId}. Give each instance a stateFile of its own; this one is written anew with the next change.`,
    ),
  }
}

/**
 * Keeps the state: at once, because the process may end the next moment, and by renaming, because half a file would be
 * none. Only the loss of power can undo it, until the disk has confirmed it a moment later: a kill must not wait for
 * that.
 */
export function writeStateFile(file: string, instanceId: string, told: Told): MonitorError | undefined {
  // Several processes of one instance, such as the hooks of a coding agent, may know different versions.
  const { value: kept } = readStateFile(file, instanceId)
  if (kept && kept.version >= told.version) return undefined
  const next = `${file}.${process.pid}.new`
  try {
    const descriptor = openSync(next, 'w', 0o600)
    try {
      writeSync(descriptor, `${JSON.stringify({ instance_id: instanceId, ...told, at: new Date().toISOString() })}\n`)
      renameSync(next, file)
    } finally {
      fsync(descriptor, () => close(descriptor, () => {}))
    }
  } catch (fault) {
    const help = 'A suspension would not survive a restart of the agent; make its folder writable.'
    return fileFault('The state file cannot be written', fault, help)
  }
}

export interface SuspendLogLine {
  instance: string
  action: 'suspend' | 'resume'
  /** Absent when the agent suspended itself, or resumed from that. */
  version?: number
  reason?: string
}

export function appendSuspendLog(file: string, line: SuspendLogLine): MonitorError | undefined {
  try {
    const descriptor = openSync(file, 'a', 0o600)
    try {
      writeSync(descriptor, `${JSON.stringify({ time: new Date().toISOString(), ...line })}\n`)
    } finally {
      closeSync(descriptor)
    }
  } catch (fault) {
    return fileFault('The suspend log cannot be written', fault, 'Make its folder writable, or set suspendLog.')
  }
}
