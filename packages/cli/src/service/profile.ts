import { readFileSync } from 'node:fs'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { Failure } from '../exit.ts'
import { textTable } from '../text-table.ts'
import { address } from './options.ts'
import { type Profile, type Profiles, profileFile, readProfiles, writeProfiles } from './profile-file.ts'

const standardInput = 0

interface SetOptions {
  url: string
  keyFile?: string
  json?: boolean
}

function readKey(file: string): string {
  try {
    const key = readFileSync(file === '-' ? standardInput : file, 'utf8').trim()
    if (key !== '') return key
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code
    throw new Failure(`The key file cannot be read (${reason}).`, 'configuration', 'configuration', { cause })
  }
  throw new Failure('The key file is empty.', 'configuration', 'configuration')
}

/** Returns a profile for output, without its key. */
const shown = (name: string, { url, key }: Profile) => ({ name, url, key: key !== undefined })

function set(name: string, { url, keyFile, json }: SetOptions): void {
  const file = profileFile(process.env)
  const profile: Profile = { url, ...(keyFile === undefined ? {} : { key: readKey(keyFile) }) }
  writeProfiles(file, new Map([...readProfiles(file), [name, profile]]))
  console.log(json ? safeJson(shown(name, profile), 2) : `Profile ${name} is set in ${file}.`)
}

const profileTable = (profiles: ReturnType<typeof shown>[]): string =>
  textTable(profiles.map(({ name, url, key }) => [name, url, key ? 'with a key' : 'without a key'].map(sanitize)))

function list({ json }: { json?: boolean }): void {
  const profiles = [...readProfiles(profileFile(process.env))].map(([name, profile]) => shown(name, profile))
  if (json) console.log(safeJson({ profiles }, 2))
  else if (profiles.length > 0) console.log(profileTable(profiles))
  else console.error('No profiles. Create one: wardline profile set <name> --url <url>.')
}

function remove(name: string, { json }: { json?: boolean }): void {
  const file = profileFile(process.env)
  const profiles: Profiles = readProfiles(file)
  if (!profiles.has(name))
    throw new Failure(`No profile ${name}; \`wardline profile list\` shows the profiles.`, 'not_found', 'refused')
  writeProfiles(file, new Map([...profiles].filter(([known]) => known !== name)))
  console.log(json ? safeJson({ ok: true, name }, 2) : `Profile ${name} is removed.`)
}

function profileName(text: string): string {
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(text)) {
    throw new InvalidArgumentError('It must be lower-case letters, digits, _ and -.')
  }
  return text
}

export function addProfile(program: Command): void {
  const profile = program
    .command('profile')
    .description(
      'manage profiles: services by name, in a file only you can read; the profile named default is used by default',
    )
  profile
    .command('set')
    .description('store or replace a profile')
    .argument('<name>', 'name of the profile', profileName)
    .requiredOption('--url <url>', 'address of the service', address)
    .option('--key-file <file>', 'file with the key; - reads standard input')
    .option('--json', 'print JSON, also for errors')
    .action(set)
  profile
    .command('list', { isDefault: true })
    .description('list names and addresses, no keys')
    .option('--json', 'print JSON, also for errors')
    .action(list)
  profile
    .command('remove')
    .description('delete a profile')
    .argument('<name>', 'name of the profile')
    .option('--json', 'print JSON, also for errors')
    .action(remove)
}
