package audit

// noAck is the mode in which a shovel consumes without acknowledgements.
const noAck = "no-ack"

func (g *graph) shovelWithoutAcknowledgement() []Finding {
	var findings []Finding
	if why := g.broker.ShovelsUnknown; why != "" {
		findings = append(findings, Finding{
			Severity: Info,
			Object:   Object{"broker", "shovels"},
			Message:  "The shovels of the virtual host are not known: " + why + ". One with ack-mode = no-ack would lose messages.",
			Fix:      "Run the audit as a user with the tag policymaker or administrator.",
		})
	}
	for _, s := range g.broker.Shovels {
		if s.AckMode == noAck {
			findings = append(findings, Finding{
				Object: Object{"shovel", s.Name},
				Message: "With ack-mode = no-ack RabbitMQ deletes a message when it sends it to the shovel. If the shovel's connection " +
					"ends, messages in flight are lost.",
				Fix: "Use ack-mode = on-confirm, the default.",
			})
		}
	}
	return findings
}
