import { createInterface } from 'node:readline/promises'
import type { Person } from '@wardline/contract'
import { loadSignInCheck, readConfig } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { withLocalDatabase } from './local.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'

/** Groups that are printed; an Entra token may have 200. */
const shownGroups = 50

/** Opens the provider of this machine's configuration, with the table of roles. */
async function openCheck() {
  const { openSignInCheck, readMappingFile, readMappings } = await loadSignInCheck()
  const config = readConfig()
  const file = config.oidcRolesFile
  const mappings =
    file === undefined ? await withLocalDatabase(({ database }) => readMappings(database.db)) : readMappingFile(file)
  const check = openSignInCheck(config, mappings)
  if (check) return { check, mappings }
  throw new Failure(
    'No provider is configured: set WARDLINE_OIDC_ISSUER, WARDLINE_OIDC_CLIENT_ID and WARDLINE_OIDC_CLIENT_SECRET as the service has them.',
    'configuration',
    'configuration',
  )
}

type Explained = ReturnType<Awaited<ReturnType<typeof openCheck>>['check']['explainToken']>

function print({ described, granted, refusal }: Explained): void {
  const { groups, name, email, verifiedEmail } = described
  const more = groups.length > shownGroups ? [`and ${groups.length - shownGroups} more`] : []
  console.log(`Name: ${sanitize(name)}`)
  if (email !== null)
    console.log(`Mail address: ${sanitize(email)} (${verifiedEmail === undefined ? 'not verified' : 'verified'})`)
  console.log(`Groups: ${[...groups.slice(0, shownGroups).map(sanitize), ...more].join(', ') || 'none'}`)
  console.log(granted ? `Role: ${granted.role}, by ${sanitize(granted.by)}` : `No role. ${refusal}`)
}

const refused = (step: string, fault: unknown): Failure =>
  new Failure(`${step}: ${(fault as Error).message}`, 'oidc', 'failed', { cause: fault })

const refreshTexts = {
  none: 'The provider gave no refresh token: sessions end after an hour. Let it allow the scope offline_access.',
  'no groups': 'A refresh says no groups: roles that are taken away end sessions after an hour, not after ten minutes.',
  groups: 'A refresh says the groups: roles follow within ten minutes.',
}

const confirmTexts = {
  yes: 'People can confirm changes that matter: the provider authenticates them again, and says when (auth_time).',
  'not again':
    'The provider says when a person signed in (auth_time), but did not authenticate them again: people sign out there before they confirm a change that matters.',
  'no time':
    'The provider does not say when a person signed in (auth_time): people cannot confirm changes that matter, which then need the local admin key. Google sends it after "Session age claims" is chosen in the settings of its Auth Platform.',
}

async function test({ signIn }: { signIn: boolean }): Promise<void> {
  const { check, mappings } = await openCheck()
  const { issuer, redirect, clientId } = check.settings
  const found = await check.discover().catch((fault) => Promise.reject(refused('Discovery', fault)))
  const has = (value: unknown) => (value === undefined ? 'no' : 'yes')
  console.log(`Provider: ${sanitize(issuer)}`)
  console.log(`  pushed requests: ${has(found.pushed_authorization_request_endpoint)}`)
  console.log(
    `  signing out there: ${has(found.end_session_endpoint)}, from there: ${found.backchannel_logout_supported === true ? 'yes' : 'no'}`,
  )
  const fault = await check.knowsClient()
  if (fault !== undefined) throw refused(`Client ${clientId}`, new Error(fault))
  console.log(`Client: ${sanitize(clientId)} and its secret are accepted`)
  console.log(`Roles: ${mappings.length} rows`)
  if (!signIn) return
  console.log(`\nOpen this address and sign in:\n\n  ${await check.start()}\n`)
  console.log(`Then the browser is at ${redirect}?…, whether or not a page is there. Copy that address.`)
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const address = (await lines.question('Address: ')).trim()
  lines.close()
  if (!URL.canParse(address)) throw new Failure('That is not an address.', 'usage', 'usage')
  const explained = await check.finish(address).catch((failure) => Promise.reject(refused('Signing in', failure)))
  console.log('')
  print(explained)
  console.log(refreshTexts[explained.refresh])
  console.log(confirmTexts[explained.confirms])
  if (!explained.granted) process.exitCode = 1
}

const isToken = (text: string): boolean => /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text)

async function explain(given: string, flags: ServiceFlags): Promise<void> {
  if (isToken(given)) {
    const explained = (await openCheck()).check.explainToken(given)
    if (flags.json) return console.log(safeJson({ verified: false, ...explained }, 2))
    console.log('The signature of the token is not verified.')
    return print(explained)
  }
  const { call } = await findService(flags)
  const { people } = await call('listPeople', {})
  const isMeant = ({ id, subject, email, name }: Person) => [id, subject, email, name].includes(given)
  const found = people.filter(isMeant)
  if (found.length === 0) {
    throw new Failure(
      `Nobody with the subject, id, mail address or name ${given} has tried to sign in; \`wardline people\` lists people.`,
      'not_found',
      'refused',
    )
  }
  if (flags.json) return console.log(safeJson({ people: found }, 2))
  for (const { id } of found) {
    const { person, groups } = await call('getPerson', { params: { id } })
    console.log(
      `${sanitize(person.name)} (${person.id}), subject ${sanitize(person.subject)} of ${sanitize(person.issuer)}`,
    )
    console.log(`Groups at ${person.evaluated_at}: ${groups.slice(0, shownGroups).map(sanitize).join(', ') || 'none'}`)
    console.log(
      person.role === null
        ? 'No role: none of these groups has one in `wardline people roles`.'
        : `Role: ${person.role}, by ${sanitize(person.role_by ?? 'an earlier table')}`,
    )
  }
}

export function addOidc(program: Command): void {
  const oidc = program.command('oidc').description('check how people sign in at an OpenID Connect provider')
  oidc
    .command('test')
    .description('walk discovery, client, claims and roles with the configuration of this machine, before it is used')
    .option('--no-sign-in', 'only discovery and client')
    .action(test)
  withService(
    oidc
      .command('explain')
      .description('print why a person has their role')
      .argument('<subject-or-token>', 'subject, id, mail address or name of a person, or an ID token'),
  ).action(explain)
}
