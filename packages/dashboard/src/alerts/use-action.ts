import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { sentenceOf } from '../service/client.ts'

interface Outcome {
  text: string
  isFault: boolean
}

/** Runs an action of a person: busy while it runs, then a sentence with the result. */
export function useAction(changes: 'alerts' | 'channels' | 'routing') {
  const client = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [outcome, setOutcome] = useState<Outcome>()

  /** Resolves with whether it succeeded. Stores no input, because it may contain secrets. */
  async function run(work: () => Promise<string>): Promise<boolean> {
    setBusy(true)
    setOutcome(undefined)
    let isFault = false
    try {
      setOutcome({ text: await work(), isFault })
    } catch (fault) {
      isFault = true
      setOutcome({ text: sentenceOf(fault), isFault })
    }
    setBusy(false)
    // Also after a failure, because another operator may have been faster.
    await client.invalidateQueries({ queryKey: [changes] })
    return !isFault
  }
  return { isBusy, outcome, run }
}
