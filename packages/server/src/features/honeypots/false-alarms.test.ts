import { keyTypes } from '@wardline/contract'
import { expect, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { anonymous } from '../../http/route.ts'
import { asteriskCommands, ordinaryCommands } from '../../testing/commands.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { workLane } from '../../work-turns.ts'

/** Decoys as the guide recommends: names next to the real ones, one of each kind of path. */
const planted = [
  '~/.aws/credentials_backup',
  '~/.aws/credentials',
  '~/.ssh/id_rsa_prod',
  '~/.ssh/id_ed25519_deploy*',
  '~/.kube/config.prod',
  '~/.config/gcloud/application_default_credentials.json',
  '~/.ethereum/keystore/',
  '~/passwords.kdbx',
  '~/.vault-token',
  '.env.production',
  '.env.backup',
  'secrets/production.env',
  'config/credentials.json',
  'wallet.dat',
  'keystore/UTC--*.json',
  '*.keychain-db',
  '/etc/shadow.bak',
  '/opt/legacy/**/.env.bak',
  '/srv/app/.env.backup',
  '/home/*/.ssh/id_rsa_old',
  '/var/backups/prod_dump.sql.gz',
  'C:\\ProgramData\\aws\\credentials.bak',
]

const commands = ordinaryCommands()

test('the corpus has more than 3,000 different ordinary commands', () => {
  expect(new Set(commands).size).toBeGreaterThan(3_000)
})

const plant = (service: TestService, body: object) =>
  service
    .call('POST', '/api/honeypots', { body: { instanceId: 'bot-1', ...body } })
    .then(({ status }) => expect(status).toBe(201))

/** Commands, each with the folder that it runs in, that match a decoy or take too much work. */
async function alarmsOf(service: TestService, calls: [command: string, cwd: string | undefined][]): Promise<string[]> {
  const { decoyChecks } = service.services
  const principal = { ...anonymous, scope: 'agent' as const, instances: ['bot-1'] }
  const alarms: string[] = []
  for (const [command, cwd] of calls) {
    const piece = workLane.open('bot-1', { max: 8 })
    const check = { meta: { tool: 'shell-exec', cwd }, principal, address: '127.0.0.1', piece }
    const path = await decoyChecks.checkPath(command, check)
    if (path.matched || path.isPartial) alarms.push(`${command} in ${cwd}`)
    const key = await decoyChecks.checkKey(command, check)
    if (key.matched || key.isPartial) alarms.push(`key: ${command}`)
    piece.end()
  }
  return alarms
}

// Operators switch off an alarm that is false every day.
test('ordinary commands match no decoy, whatever folder they run in', async () => {
  await using service = await openTestService({ env: { WARDLINE_DECOY_URL: 'https://files.example.com' } })
  for (const path of planted) await plant(service, { type: 'file_path', path })
  for (const keyType of keyTypes) await plant(service, { type: 'api_key', keyType })
  const folders = ['/srv/app', '/home/eve/projects/app', '/home/eve', 'C:\\Users\\eve\\app', undefined]
  // Other databases get the same checks, so a sample is enough there.
  const every = process.env.TEST_ENGINE === 'sqlite' ? 1 : effort(20, 1)
  const calls = commands
    .map((command, number): [string, string | undefined] => [command, folders[number % folders.length]])
    .filter((_, number) => number % every === 0)
  expect(await alarmsOf(service, calls)).toEqual([])
  await service.services.ingest.whenIdle()
  const types = await service.rows<{ event_type: string }>('select distinct event_type from events')
  expect(types.map(({ event_type }) => event_type).filter((type) => type !== 'decoy_swept')).toEqual([])
  expect(await service.rows('select * from honeypot_hits')).toEqual([])
})

// A decoy where the agent works, which is where an attacker looks first.
test('commands with asterisks match no decoy in the folder that they run in', async () => {
  await using service = await openTestService()
  const work = '/home/bot/work'
  for (const path of ['.env', 'secret/creds.txt', 'src/notes.key', 'passwords.kdbx'])
    await plant(service, { type: 'file_path', path: `${work}/${path}` })
  const within = asteriskCommands.map((command): [string, string] => [command, work])
  const below = asteriskCommands.map((command): [string, string] => [`cd ${work}/src && ${command}`, '/home/bot'])
  expect(await alarmsOf(service, [...within, ...below])).toEqual([])
  expect(await service.rows('select * from honeypot_hits')).toEqual([])
})
