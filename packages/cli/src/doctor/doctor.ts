import type { Command } from 'commander'
import { withService } from '../service/options.ts'
import { findService, type Service } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { checkChannels } from './channels.ts'
import { type Check, conclude, show } from './check.ts'
import { checkConfigurations } from './configuration.ts'
import { checkControlPath } from './control.ts'
import { checkEventIndex } from './event-index.ts'
import { checkHooks } from './hooks.ts'
import { checkPolicySetup } from './policy-setup.ts'
import { checkClock, checkKey, checkOpenPaths, checkReadiness, checkService, checkTransport } from './service.ts'
import { checkControlStream, checkLiveStream } from './streams.ts'
import { checkVersions } from './verified-versions.ts'

interface DoctorOptions extends ServiceFlags {
  probe?: boolean
  hooks?: boolean
}

/** Runs the checks in sequence: each result is shown at once, and later checks depend on earlier ones. */
async function* checksOf(service: Service, { probe, hooks }: DoctorOptions): AsyncGenerator<Check> {
  const { check, health } = await checkService(service)
  yield check
  if (health) {
    yield checkTransport(service)
    yield checkClock(health)
    yield await checkReadiness(service)
    yield await checkKey(service)
    yield await checkOpenPaths(service)
    yield await checkChannels(service)
    yield await checkEventIndex(service)
    const streams = [checkLiveStream(service), checkControlStream(service)]
    for (const stream of streams) yield await stream
    if (probe) yield await checkControlPath(service)
  }
  if (hooks) {
    yield* await checkHooks()
    yield* await checkConfigurations()
    yield* await checkVersions()
    yield* await checkPolicySetup()
  }
}

async function doctor(options: DoctorOptions): Promise<void> {
  const service = await findService(options)
  const checks: Check[] = []
  for await (const check of checksOf(service, options)) {
    checks.push(check)
    if (!options.json) show(check)
  }
  conclude(checks, options)
}

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('check the connection to the service: exit code 0 when all is well, 1 when a check fails')
    .option('--probe', 'also kill, confirm and resume a test instance; it remains in the fleet as wardline-doctor')
    .option(
      '--hooks',
      'also run the hooks of the coding agents of this user: check that they block, check their keys, and report their settings',
    )
  withService(command).action(doctor)
}
