import type { offChainFault as fault } from './features/chain/off-chain.ts'
import type { openPublished as open } from './features/chain/published.ts'
import type { verifySelf as verify } from './features/trust/verification/verify.ts'
import type { startGateway as gateway } from './gateway-process.ts'
import type { startServer as start } from './main.ts'

export type { UnopenedService } from './before-listening.ts'
export type { Clock } from './clock.ts'
export { type Config, ConfigError, databaseFile, describeConfig, readConfig, settings } from './config/config.ts'
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

/** See main.ts. Imported on demand, because routes and jobs take longer to load than a database command to run. */
export const startServer: typeof start = async (...given) => (await import('./main.ts')).startServer(...given)

/** See gateway-process.ts. Imported on demand, for the same reason. */
export const startGateway: typeof gateway = async (...given) =>
  (await import('./gateway-process.ts')).startGateway(...given)

/** Imported on demand, with its network code. */
export const verifySelf: typeof verify = async (...given) =>
  (await import('./features/trust/verification/verify.ts')).verifySelf(...given)

/** Opens the published attestations of a service, as read from a chain node. Imported on demand. */
export const openPublished: typeof open = async (...given) =>
  (await import('./features/chain/published.ts')).openPublished(...given)

/** Verifies a signed attestation, without a node. Imported on demand. */
export const offChainFault: typeof fault = async (...given) =>
  (await import('./features/chain/off-chain.ts')).offChainFault(...given)

/** Tools for rule files, without a service. Imported on demand, because only `wardline rules` needs the parser. */
export async function loadRuleFiles() {
  const { exportSigma, importSigma, lintRules, testRules } = await import('./features/rules/language/offline.ts')
  const { starterRules } = await import('./features/rules/starter-rules.ts')
  return { exportSigma, importSigma, lintRules, starterRules, testRules }
}

/** Tools for policy files, without a service. Imported on demand, because only `wardline policy` needs the parser. */
export async function loadPolicyFiles() {
  const { lintText } = await import('./features/policies/policy-text.ts')
  const { withLabelFiles } = await import('./features/policies/label-files.ts')
  const { readBounded } = await import('./features/rules/bounded-file.ts')
  return { lintText, readBounded, withLabelFiles }
}

/** Reads files of enforcement points, without a service. Imported on demand, only by `wardline enforcement add`. */
export async function loadEnforcementFiles() {
  const { parsePoints } = await import('./config/enforcement-points.ts')
  const { readPrivateFile } = await import('./private-files.ts')
  return { parsePoints, readPrivateFile }
}

/** Verifies incident bundles without a service. Imported on demand, only by `wardline incident verify`. */
export async function loadIncidentVerification() {
  const { verifyIncident } = await import('./features/incidents/verify.ts')
  return { verifyIncident }
}

/** Checks the provider at which people sign in, without a service. Imported on demand, only by `wardline oidc`. */
export async function loadSignInCheck() {
  const { openSignInCheck } = await import('./features/sign-in/check.ts')
  const { readMappingFile, parseMappings } = await import('./config/roles-file.ts')
  const { readMappings } = await import('./features/people/queries.ts')
  return { openSignInCheck, parseMappings, readMappingFile, readMappings }
}
