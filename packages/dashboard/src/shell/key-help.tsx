import { Button } from '../ui/button.tsx'
import { Dialog, DialogFoot } from '../ui/dialog.tsx'
import { commandKey } from '../ui/shortcuts.ts'
import { places, wallboard } from './places.ts'

const keys: [key: string, what: string][] = [
  [`${commandKey}K`, 'search agents, alerts, rules, decoys, events, settings, pages and actions'],
  ...places.map(({ key, name }): [string, string] => [`g ${key}`, `open ${name}`]),
  [`g ${wallboard.key}`, 'open the wallboard in full screen; Esc leaves it'],
  ['/', 'go to the filter'],
  ['j k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['x', 'select the row'],
  ['n', 'plant a decoy, new rule, create a key'],
  ['s', 'suspend the row, the selected agents or the agent that is open'],
  ['a', 'acknowledge the marked item of the overview, or the marked or selected alerts'],
  ['p', 'pause live events'],
  ['v', 'verify the audit log'],
  ['← →', 'move in a chart; with Shift select a range, Enter zooms'],
  ['t', 'switch between local time and UTC'],
  ['?', 'show the shortcuts'],
  ['Esc', 'close, or clear the selection'],
]

export function KeyHelp({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <table>
        <tbody>
          {keys.map(([key, what]) => (
            <tr key={key}>
              <td>
                <kbd>{key}</kbd>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <DialogFoot>
        <Button onClick={onClose} shortcut="Esc">
          Close
        </Button>
      </DialogFoot>
    </Dialog>
  )
}
