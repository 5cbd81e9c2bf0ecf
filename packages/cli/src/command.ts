import type { Command } from 'commander'
import { createRoot } from './root.ts'

type Add = (program: Command) => void
/** Loaders by command name. Each command loads only its own modules, because loading the service takes longer than most commands run. */
type Commands = Record<string, () => Promise<Add>>

const whereTheServiceRuns: Commands = {
  serve: async () => (await import('./serve.ts')).addServe,
  gateway: async () => (await import('./gateway.ts')).addGateway,
  config: async () => (await import('./config.ts')).addConfig,
  audit: async () => (await import('./audit.ts')).addAudit,
  backup: async () => (await import('./backup.ts')).addBackup,
  migrate: async () => (await import('./migrate.ts')).addMigrate,
  chain: async () => (await import('./chain.ts')).addChain,
  simulate: async () => (await import('./simulate/simulate.ts')).addSimulate,
  oidc: async () => (await import('./oidc.ts')).addOidc,
  detector: async () => (await import('./detector.ts')).addDetector,
}

const fromAnywhere: Commands = {
  status: async () => (await import('./status.ts')).addStatus,
  instances: async () => (await import('./instances.ts')).addInstances,
  baselines: async () => (await import('./baselines.ts')).addBaselines,
  kill: async () => (await import('./kill.ts')).addKill,
  resume: async () => (await import('./kill.ts')).addResume,
  suspensions: async () => (await import('./suspensions.ts')).addSuspensions,
  drill: async () => (await import('./drill.ts')).addDrill,
  enforcement: async () => (await import('./enforcement.ts')).addEnforcement,
  brake: async () => (await import('./brake.ts')).addBrake,
  contain: async () => (await import('./containments.ts')).addContain,
  containments: async () => (await import('./containments.ts')).addContainments,
  approvals: async () => (await import('./approvals.ts')).addApprovals,
  tail: async () => (await import('./events/tail.ts')).addTail,
  events: async () => (await import('./events/events.ts')).addEvents,
  decoys: async () => (await import('./decoys.ts')).addDecoys,
  alerts: async () => (await import('./alerts/alerts.ts')).addAlerts,
  channels: async () => (await import('./alerts/channels.ts')).addChannels,
  routes: async () => (await import('./alerts/routes.ts')).addRoutes,
  silences: async () => (await import('./alerts/silences.ts')).addSilences,
  attest: async () => (await import('./attest.ts')).addAttest,
  keys: async () => (await import('./keys/keys.ts')).addKeys,
  passkeys: async () => (await import('./passkeys.ts')).addPasskeys,
  people: async () => (await import('./people.ts')).addPeople,
  login: async () => (await import('./login/login.ts')).addLogin,
  whoami: async () => (await import('./login/whoami.ts')).addWhoami,
  logout: async () => (await import('./login/login.ts')).addLogout,
  policy: async () => (await import('./policy/policy.ts')).addPolicy,
  rules: async () => (await import('./rules.ts')).addRules,
  lists: async () => (await import('./lists.ts')).addLists,
  incident: async () => (await import('./incident.ts')).addIncident,
  doctor: async () => (await import('./doctor/doctor.ts')).addDoctor,
  profile: async () => (await import('./service/profile.ts')).addProfile,
}

/** Creates the program with all commands and their options. */
export async function createProgram(): Promise<Command> {
  const program = createRoot().commandsGroup('Where the service runs:')
  for (const load of Object.values(whereTheServiceRuns)) (await load())(program)
  program.commandsGroup('From anywhere:')
  for (const load of Object.values(fromAnywhere)) (await load())(program)
  const { addCompletion } = await import('./completion.ts')
  addCompletion(program)
  return program
}

/** Creates a program with only the named command, or with all commands if the name is unknown. */
export async function createProgramFor(name: string | undefined): Promise<Command> {
  const commands = { ...whereTheServiceRuns, ...fromAnywhere }
  if (name === undefined || !Object.hasOwn(commands, name)) return createProgram()
  const program = createRoot()
  const add = await commands[name]!()
  add(program)
  return program
}
