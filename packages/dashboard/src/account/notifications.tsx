import { limits } from '@wardline/contract'
import { useState } from 'react'
import { useFormChange } from '../data/change.ts'
import { isNotified, readNotifyChoice, storeNotifyChoice } from '../data/notify-choice.ts'
import { type Session, useMayOperate } from '../data/session.ts'
import { entered } from '../parts/change-dialog.tsx'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, TextField } from '../ui/field.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { plainText } from '../ui/unseen-characters.ts'

const isTag = (text: string) => /^[a-z0-9_.:-]+$/.test(text) && text.length <= limits.tag

/** Throws Error where the browser will not show notifications. */
async function askPermission(): Promise<void> {
  if (typeof Notification === 'undefined') {
    throw new Error('This browser shows notifications only of addresses with https:// and of localhost.')
  }
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new Error('The browser refuses notifications of this address: allow them in its settings of the site.')
  }
}

function ChoiceDialog({ keyId, onClose }: { keyId: string; onClose(): void }) {
  const mayOperate = useMayOperate()
  const [{ assigned, tags }] = useState(() => readNotifyChoice(keyId))
  const dialog = useFormChange({
    changes: [],
    save: async (form) => {
      const chosen = [
        ...new Set(
          entered(form, 'tags')
            .toLowerCase()
            .split(/[\s,]+/)
            .filter(Boolean),
        ),
      ]
      const wrong = chosen.find((tag) => !isTag(tag))
      if (wrong !== undefined) throw new Error(`“${plainText(wrong)}” is not a tag.`)
      if (chosen.length > limits.tags) throw new Error(`Choose at most ${limits.tags} tags.`)
      const choice = { assigned: form.has('assigned'), tags: chosen }
      if (isNotified(choice)) await askPermission()
      storeNotifyChoice(keyId, choice)
      return isNotified(choice) ? 'Browser notifications are on.' : 'Browser notifications are off.'
    },
    onClose,
  })
  return (
    <FormDialog {...dialog} title="Browser notifications" submit="Save">
      {mayOperate && <Check label="Alerts assigned to me" name="assigned" defaultChecked={assigned} />}
      <TextField
        label="Alerts on agents with one of these tags, separated by commas"
        hint="Only tags that operators and keys gave; those that agents give themselves do not count."
        name="tags"
        placeholder="env:production, finance"
        autoComplete="off"
        maxLength={limits.tags * (limits.tag + 2)}
        defaultValue={tags.join(', ')}
      />
      <p className="quiet">
        This browser shows them while a tab of this dashboard is open, also in the background. Such a tab counts as use
        of the session.
      </p>
    </FormDialog>
  )
}

/** For which alerts this browser shows notifications. */
export function Notifications({ session: { key_id } }: { session: Session }) {
  const [isOpen, setOpen] = useState(false)
  const { assigned, tags } = readNotifyChoice(key_id)
  const chosen = [
    ...(assigned ? ['alerts assigned to you'] : []),
    ...(tags.length > 0 ? [`alerts on agents with the tag ${plainText(tags.join(' or '))}`] : []),
  ]
  return (
    <>
      <Panel title="Browser notifications" end={<Button onClick={() => setOpen(true)}>Change…</Button>}>
        <EmptyState>
          {chosen.length === 0
            ? 'This browser shows no notifications.'
            : `This browser notifies you of ${chosen.join(', and of ')}.`}
        </EmptyState>
      </Panel>
      {isOpen && <ChoiceDialog keyId={key_id} onClose={() => setOpen(false)} />}
    </>
  )
}
