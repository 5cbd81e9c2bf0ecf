import { getHeapStatistics } from 'node:v8'
import { ruleLimits } from '@wardline/contract'
import { MemoryLimit } from './memory-limit.ts'

const heapBytes = getHeapStatistics().heap_size_limit

/** Bytes of the windows and cooldowns of a rule, and as many of what its new_value knows; less in a small heap. */
export const stateBytes = Math.min(ruleLimits.stateBytes, Math.floor(heapBytes / 16))

/**
 * Bytes of all rules that run in a process. A quarter of the heap leaves room for two backtests and the service itself; and
 * with more than this the garbage collector would hold up requests.
 */
export const allStatesBytes = Math.min(256 * 1024 ** 2, Math.floor(heapBytes / 4))

/** Limits the memory of these rules together, from now on. */
export function limitTogether(
  rules: readonly { state: { memory: MemoryLimit }; history: { memory: MemoryLimit } }[],
  bytes: number = allStatesBytes,
): void {
  const all = new MemoryLimit(bytes)
  for (const { state, history } of rules) {
    all.join(state.memory)
    all.join(history.memory)
  }
}
