import type { openPublished as open } from './features/chain/published.ts'
import type { verifySelf as verify } from './features/trust/verification/verify.ts'
import type { startServer as start } from './main.ts'

export { systemClock } from './clock.ts'
export { type Config, ConfigError, databaseFile, describeConfig, readConfig, settings } from './config.ts'
export { type CopyProgress, copyBetween } from './db/copy.ts'
export { type Deps, openDeps } from './deps.ts'
export { auditCheckpoint, localActor, verifyAudit } from './features/audit/audit.ts'
export { readCheckpoint, signCheckpoint } from './features/audit/signed-checkpoint.ts'
export { defaultOverlapHours, rotateSigningKey } from './features/audit/signing-keys.ts'
export { openChain } from './features/chain/open-chain.ts'
export { type SimulatedKind, simulateDetector } from './features/detection/simulation.ts'
export { createKey, listKeys, revokeKey, rotateKey, setKeyQuotas } from './features/keys/keys.ts'
export { loginUrl } from './features/keys/login-codes.ts'
export { createLog, isLogPretty } from './log.ts'
export type { RunningServer } from './main.ts'
export { assertValid } from './validation.ts'
export { version } from './version.ts'

/** See main.ts. Loaded by the call: routes and jobs take longer to load than a command on the database runs. */
export const startServer: typeof start = async (...given) => (await import('./main.ts')).startServer(...given)

/** Loaded by the call, with the connections that it opens. */
export const verifySelf: typeof verify = async (...given) =>
  (await import('./features/trust/verification/verify.ts')).verifySelf(...given)

/** Attestations that a service publishes, as a node has them. Loaded by the call. */
export const openPublished: typeof open = async (...given) =>
  (await import('./features/chain/published.ts')).openPublished(...given)

/** Rules in files, without a service. Loaded by the call: only `wardline rules` needs the parser and the expressions. */
export async function loadRuleFiles() {
  const { exportSigma, importSigma, lintRules, testRules } = await import('./features/rules/language/offline.ts')
  const { starterRules } = await import('./features/rules/starter-rules.ts')
  return { exportSigma, importSigma, lintRules, starterRules, testRules }
}

/** Bundles in files, without a service. Loaded by the call: only `wardline incident verify` needs it. */
export async function loadIncidentVerification() {
  const { verifyIncident } = await import('./features/incidents/verify.ts')
  return { verifyIncident }
}
