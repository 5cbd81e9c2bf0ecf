import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { plainLine } from '../../plain-line.ts'
import { CommandFault } from '../command-fault.ts'

export interface Account {
  name: string
  uid: number
  gid: number
  home: string
}

/** Finds a user of this machine. Throws a CommandFault if there is none, or if this process may not become one. */
export function findAccount(name: string): Account {
  if (process.getuid?.() !== 0) throw new CommandFault('--user needs root: start the supervisor as root.')
  if (!/^\w[\w.-]*\$?$/.test(name)) throw new CommandFault(`--user ${plainLine(name)} is no name of a user.`, 'usage')
  // Without `getent`, such as on macOS, only users of the file are found.
  const { stdout } = spawnSync('getent', ['passwd', name], { encoding: 'utf8' })
  for (const line of (stdout || readFileSync('/etc/passwd', 'utf8')).split('\n')) {
    const [found, , uid, gid, , home] = line.split(':')
    if (found === name && home !== undefined) return { name, uid: Number(uid), gid: Number(gid), home }
  }
  throw new CommandFault(`--user ${name}: no such user. Create it, or name another one.`, 'usage')
}
