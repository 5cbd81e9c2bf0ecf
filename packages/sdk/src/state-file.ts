import { close, fstatSync, fsync, lstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { MonitorError } from './faults.ts'
import { openRegular, tailOf, withFile } from './regular-file.ts'
import type { ControlState } from './wire.ts'

/** Value or fault. Faults are returned, not thrown, because the agent works without the file. */
type Outcome<Value> = { value: Value; fault?: never } | { fault: MonitorError; value?: never }

/** Far above the few hundred bytes of a state. */
const maxStateBytes = 64 * 1024
/** Holds thousands of suspensions and resumes. A full log replaces `<log>.1`. */
const maxLogBytes = 1024 * 1024

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

function fileFault(what: string, fault: unknown, help: string): MonitorError {
  return new MonitorError('file', `${what} (${codeOf(fault)}). ${help}`, fault)
}

/** Reads the state saved before the agent restarted; undefined when none was saved yet. */
export function readStateFile(file: string, instanceId: string): Outcome<ControlState | undefined> {
  let text: string
  try {
    text = withFile(openRegular(file, 'read'), (descriptor) => tailOf(descriptor, maxStateBytes))
  } catch (fault) {
    if (codeOf(fault) === 'ENOENT') return { value: undefined }
    const help = 'Until the first contact a suspension is unknown; give the agent read access to the file.'
    return { fault: fileFault('The state file cannot be read', fault, help) }
  }
  try {
    const { instance_id, version, suspended, reason } = JSON.parse(text)
    const fits = instance_id === instanceId && Number.isSafeInteger(version) && version >= 0
    if (fits && typeof suspended === 'boolean') {
      return { value: { version, suspended, reason: typeof reason === 'string' ? reason : null } }
    }
  } catch {
    // Reported below.
  }
  return {
    fault: new MonitorError(
      'file',
      `The state file has no state of the instance ${instanceId}. Give each instance a separate stateFile; this one is rewritten at the next change.`,
    ),
  }
}

/**
 * Writes a file that only its owner can read: synchronously, because the process may end the next moment, and by renaming,
 * because half a file would be unreadable. fsync runs afterwards, since a kill must not wait for the disk; until it
 * completes, a power loss can undo the save. Throws if the file cannot be written.
 */
export function replaceFile(file: string, text: string): void {
  const next = `${file}.${process.pid}.new`
  // Remove a file left by a crashed process, or a link to another file.
  rmSync(next, { force: true })
  const descriptor = openSync(next, 'wx', 0o600)
  try {
    writeSync(descriptor, text)
    renameSync(next, file)
  } finally {
    fsync(descriptor, () => close(descriptor, () => {}))
  }
}

/** Saves a state that is newer than the saved one, or replaces it if `isInstead`. */
export function writeStateFile(
  file: string,
  instanceId: string,
  received: ControlState,
  isInstead: boolean,
): MonitorError | undefined {
  // Processes of one instance, such as the hooks of a coding agent, may know different versions.
  const { value: kept } = readStateFile(file, instanceId)
  if (kept && kept.version >= received.version && !isInstead) return undefined
  try {
    replaceFile(file, `${JSON.stringify({ instance_id: instanceId, ...received, at: new Date().toISOString() })}\n`)
  } catch (fault) {
    const help = 'A suspension would not survive a restart of the agent; make its folder writable.'
    return fileFault('The state file cannot be written', fault, help)
  }
}

export interface SuspendLogLine {
  instance: string
  action: 'suspend' | 'resume'
  /** Undefined if the agent suspended itself, or resumed from that. */
  version?: number
  reason?: string
}

export function appendSuspendLog(file: string, line: SuspendLogLine): MonitorError | undefined {
  try {
    withFile(openRegular(file, 'append'), (descriptor) => {
      const { size, ino } = fstatSync(descriptor)
      if (size > maxLogBytes && lstatSync(file).ino === ino) renameSync(file, `${file}.1`)
    })
    const entry = `${JSON.stringify({ time: new Date().toISOString(), ...line })}\n`
    withFile(openRegular(file, 'append'), (descriptor) => writeSync(descriptor, entry))
  } catch (fault) {
    return fileFault('The suspend log cannot be written', fault, 'Make its folder writable, or set suspendLog.')
  }
}
