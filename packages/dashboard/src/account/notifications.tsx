import { useQuery } from '@tanstack/react-query'
import { limits, type MailChoice, mailLimits } from '@wardline/contract'
import { useState } from 'react'
import { useFormChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { isNotified, type NotifyChoice, readNotifyChoice, storeNotifyChoice } from '../data/notify-choice.ts'
import { queryKeys } from '../data/query-keys.ts'
import { type Session, useMayOperate } from '../data/session.ts'
import { entered } from '../parts/change-dialog.tsx'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, TextField } from '../ui/field.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
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

/** Returns the chosen tags of a form. Throws Error. */
function chosenTags(form: FormData): string[] {
  const words = entered(form, 'tags')
    .toLowerCase()
    .split(/[\s,]+/)
  const chosen = [...new Set(words.filter(Boolean))]
  const wrong = chosen.find((tag) => !isTag(tag))
  if (wrong !== undefined) throw new Error(`“${plainText(wrong)}” is not a tag.`)
  if (chosen.length > limits.tags) throw new Error(`Choose at most ${limits.tags} tags.`)
  return chosen
}

function ChoiceFields({ assigned, tags }: NotifyChoice) {
  const mayOperate = useMayOperate()
  return (
    <>
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
    </>
  )
}

const choiceText = ({ assigned, tags }: NotifyChoice): string =>
  [
    ...(assigned ? ['alerts assigned to you'] : []),
    ...(tags.length > 0 ? [`alerts on agents with the tag ${plainText(tags.join(' or '))}`] : []),
  ].join(', and of ')

function ChoiceDialog({ keyId, onClose }: { keyId: string; onClose(): void }) {
  const [choice] = useState(() => readNotifyChoice(keyId))
  const dialog = useFormChange({
    changes: [],
    save: async (form) => {
      const choice = { assigned: form.has('assigned'), tags: chosenTags(form) }
      if (isNotified(choice)) await askPermission()
      storeNotifyChoice(keyId, choice)
      return isNotified(choice) ? 'Browser notifications are on.' : 'Browser notifications are off.'
    },
    onClose,
  })
  return (
    <FormDialog {...dialog} title="Browser notifications" submit="Save">
      <ChoiceFields {...choice} />
      <p className="quiet">
        This browser shows them while a tab of this dashboard is open, also in the background. A hidden tab is no use of
        the session: after 30 minutes without use it ends, and its notifications with it.
      </p>
    </FormDialog>
  )
}

/** For which alerts this browser shows notifications. */
export function Notifications({ session: { key_id } }: { session: Session }) {
  const [isOpen, setOpen] = useState(false)
  const choice = readNotifyChoice(key_id)
  return (
    <>
      <Panel title="Browser notifications" end={<Button onClick={() => setOpen(true)}>Change…</Button>}>
        <EmptyState>
          {isNotified(choice)
            ? `This browser notifies you of ${choiceText(choice)}.`
            : 'This browser shows no notifications.'}
        </EmptyState>
      </Panel>
      {isOpen && <ChoiceDialog keyId={key_id} onClose={() => setOpen(false)} />}
    </>
  )
}

function MailDialog({ choice, onClose }: { choice: MailChoice; onClose(): void }) {
  const dialog = useFormChange({
    changes: [queryKeys.mailChoice],
    save: async (form) => {
      const body = { assigned: form.has('assigned'), tags: chosenTags(form) }
      const { unavailable } = await call('setMailChoice', { body })
      if (!isNotified(body)) return 'Mail is off.'
      return unavailable === null ? 'Mail is on.' : 'Saved. Nothing is sent yet.'
    },
    onClose,
  })
  return (
    <FormDialog {...dialog} title="Notifications by mail" submit="Save">
      <ChoiceFields {...choice} />
      <p className="quiet">At most {mailLimits.perHour} mails an hour; further alerts follow together.</p>
    </FormDialog>
  )
}

/** Which alerts the person gets by mail. */
export function MailNotifications() {
  const [isOpen, setOpen] = useState(false)
  const { data, error } = useQuery({
    queryKey: queryKeys.mailChoice,
    queryFn: ({ signal }) => call('getMailChoice', { signal }),
  })
  return (
    <>
      <Panel title="Notifications by mail" end={data && <Button onClick={() => setOpen(true)}>Change…</Button>}>
        <Fault of={error} isInPanel />
        {data && (
          <EmptyState>
            {isNotified(data)
              ? `You chose mail of ${choiceText(data)}${data.address === null ? '' : `, to ${plainText(data.address)}`}.`
              : 'You get no mail.'}
            {data.unavailable !== null && ` Nothing is sent: ${plainText(data.unavailable)}`}
          </EmptyState>
        )}
      </Panel>
      {isOpen && data && <MailDialog choice={data} onClose={() => setOpen(false)} />}
    </>
  )
}
