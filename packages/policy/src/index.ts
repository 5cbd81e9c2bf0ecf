export { argsHash } from './canonical.ts'
export { deliveredDocument } from './delivered.ts'
export { guessLabels, type ListedTool } from './guess.ts'
export { lintPolicy } from './lint.ts'
export { SessionMemory, type StoredMemory } from './memory.ts'
export { packs } from './packs.ts'
export { type Agent, askOf, isForAgent, mayRestrict, modeFor, type Policy, readPolicy, type Scope } from './policy.ts'
export {
  type DeliveredSet,
  PolicyDecider,
  type PolicyReference,
  PolicySet,
  PolicySetFault,
  type SetDecision,
} from './policy-set.ts'
export { isLabelFile, readLabels } from './read-labels.ts'
export type { PolicyFault } from './reader.ts'
export { keyFormatOf, keySource, keyTextSource, privateKeySource } from './secret-formats.ts'
