import { close, fstatSync, fsync, lstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { MonitorError } from './faults.ts'
import { openRegular, tailOf, withFile } from './regular-file.ts'
import type { ControlState } from './wire.ts'

/** A fault of the file is returned: the agent goes on without it. */
type Outcome<Value> = { value: Value; fault?: never } | { fault: MonitorError; value?: never }

/** A state has a few hundred bytes. */
const maxStateBytes = 64 * 1024
/** Thousands of suspensions and resumes; what is older goes to `<log>.1`, and then away. */
const maxLogBytes = 1024 * 1024

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

function fileFault(what: string, fault: unknown, help: string): MonitorError {
  return new MonitorError('file', `${what} (${codeOf(fault)}). ${help}`, fault)
}

/** The state that was kept before the agent was restarted; undefined when nothing was kept yet. */
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
 * Keeps the state: at once, because the process may end the next moment, and by renaming, because half a file would be
 * none. Only the loss of power can undo it, until the disk has confirmed it a moment later: a kill must not wait for
 * that.
 */
export function writeStateFile(
  file: string,
  instanceId: string,
  received: ControlState,
  isInstead: boolean,
): MonitorError | undefined {
  // Several processes of one instance, such as the hooks of a coding agent, may know different versions.
  const { value: kept } = readStateFile(file, instanceId)
  if (kept && kept.version >= received.version && !isInstead) return undefined
  const next = `${file}.${process.pid}.new`
  try {
    // One that a process left behind, or a link that leads elsewhere.
    rmSync(next, { force: true })
    const descriptor = openSync(next, 'wx', 0o600)
    try {
      writeSync(
        descriptor,
        `${JSON.stringify({ instance_id: instanceId, ...received, at: new Date().toISOString() })}\n`,
      )
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
