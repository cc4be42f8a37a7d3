# network/name/queue@vhost; write %2F for a / and %40 for an @ inside a name
terraform import rabbitmq_delay_destination.orders 'delays/eu.orders/orders@/'
