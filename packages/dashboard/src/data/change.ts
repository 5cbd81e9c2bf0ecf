import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { say } from '../ui/toast.ts'

interface ChangeOptions {
  /** Subjects that are read again afterwards. */
  changes: readonly QueryKey[]
}

interface Change {
  isBusy: boolean
  /** Why the last run failed; undefined after a success and while it runs. */
  fault: Error | undefined
  /**
   * Runs the work, unless the last one is still running. Says the sentence that it resolves with, if any. Resolves with
   * whether it succeeded.
   */
  run(work: () => Promise<string | undefined>): Promise<boolean>
}

/**
 * The one way to change something: busy while it runs, a toast with the result, or the fault for the caller to show where
 * the person acted. Keeps nothing that was sent, because it may contain secrets.
 */
export function useChange({ changes }: ChangeOptions): Change {
  const client = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [fault, setFault] = useState<Error>()

  async function run(work: () => Promise<string | undefined>): Promise<boolean> {
    if (isBusy) return false
    setBusy(true)
    setFault(undefined)
    let isDone = false
    try {
      const sentence = await work()
      isDone = true
      if (sentence) say(sentence)
    } catch (problem) {
      setFault(problem as Error)
    }
    setBusy(false)
    // Also after a failure, because another operator may have been faster.
    await Promise.all(changes.map((queryKey) => client.invalidateQueries({ queryKey })))
    return isDone
  }
  return { isBusy, fault, run }
}
