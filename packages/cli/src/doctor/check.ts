import { styleText } from 'node:util'
import { safeJson, sanitize } from '@wardline/text'
import { exitCodes } from '../exit.ts'

/** Result of one check of the service or of this machine. */
export interface Check {
  name: string
  /** `skip`: not possible here, see `detail`. */
  status: 'ok' | 'warn' | 'fail' | 'skip'
  /** One sentence: the observation, and its cause if known. */
  detail: string
  /** One sentence: how to fix it. */
  fix?: string
}

export const ok = (name: string, detail: string): Check => ({ name, status: 'ok', detail })
export const warn = (name: string, detail: string, fix: string): Check => ({ name, status: 'warn', detail, fix })
export const fail = (name: string, detail: string, fix: string): Check => ({ name, status: 'fail', detail, fix })
export const skip = (name: string, detail: string): Check => ({ name, status: 'skip', detail })

const styles: Record<Check['status'], Parameters<typeof styleText>[0]> = {
  ok: 'green',
  warn: 'yellow',
  fail: 'red',
  skip: 'dim',
}

/** Prints a check as a line, and how to fix it below. */
export function show({ name, status, detail, fix }: Check): void {
  const mark = styleText(styles[status], status.padEnd(4), { stream: process.stdout })
  console.log(`${mark}  ${name.padEnd(20)}  ${sanitize(detail)}`)
  if (fix !== undefined) console.log(`${' '.repeat(28)}→ ${sanitize(fix)}`)
}

/** Sets the exit code, and prints the checks as JSON if that was asked for. */
export function conclude(checks: readonly Check[], { json }: { json?: boolean }): void {
  const isWell = checks.every(({ status }) => status !== 'fail')
  if (json) console.log(safeJson({ ok: isWell, checks }, 2))
  if (!isWell) process.exitCode = exitCodes.failed
}
