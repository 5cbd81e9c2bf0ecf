import { styleText } from 'node:util'
import type { Command } from 'commander'
import { checkChannels } from './doctor-channels.ts'
import type { Check } from './doctor-check.ts'
import { checkControlPath } from './doctor-control.ts'
import { checkHooks } from './doctor-hooks.ts'
import { checkClock, checkKey, checkReadiness, checkService, checkTransport } from './doctor-service.ts'
import { checkControlStream, checkLiveStream } from './doctor-streams.ts'
import { exitCodes } from './exit.ts'
import { findService, type Service } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'

interface DoctorOptions extends ServiceFlags {
  probe?: boolean
  hooks?: boolean
}

const styles: Record<Check['status'], Parameters<typeof styleText>[0]> = {
  ok: 'green',
  warn: 'yellow',
  fail: 'red',
  skip: 'dim',
}

function show({ name, status, detail, fix }: Check): void {
  const mark = styleText(styles[status], status.padEnd(4), { stream: process.stdout })
  console.log(`${mark}  ${name.padEnd(20)}  ${plainText(detail)}`)
  if (fix !== undefined) console.log(`${' '.repeat(28)}→ ${plainText(fix)}`)
}

/** One after the other: each is shown when it is known, and the later ones need the earlier. */
async function* checksOf(service: Service, { probe, hooks }: DoctorOptions): AsyncGenerator<Check> {
  const { check, health } = await checkService(service)
  yield check
  if (health) {
    yield checkTransport(service)
    yield checkClock(health)
    yield await checkReadiness(service)
    yield await checkKey(service)
    yield await checkChannels(service)
    const streams = [checkLiveStream(service), checkControlStream(service)]
    for (const stream of streams) yield await stream
    if (probe) yield await checkControlPath(service)
  }
  if (hooks) yield* await checkHooks()
}

async function doctor(options: DoctorOptions): Promise<void> {
  const service = await findService(options)
  const checks: Check[] = []
  for await (const check of checksOf(service, options)) {
    checks.push(check)
    if (!options.json) show(check)
  }
  const isWell = checks.every(({ status }) => status !== 'fail')
  if (options.json) console.log(plainJson({ ok: isWell, checks }, 2))
  if (!isWell) process.exitCode = exitCodes.failed
}

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('look for what is wrong between here and the service: exit code 0 nothing, 1 something')
    .option('--probe', 'kill, confirm and resume a throw-away instance too; it stays in the fleet as wardline-doctor')
    .option('--hooks', 'run the hooks of the coding agents of this user, and see whether they really block')
  withService(command).action(doctor)
}
