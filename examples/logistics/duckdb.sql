-- Tables Customers, Carriers, Warehouses, Orders, Shipments and Stops as they came, and a macro `clock()`, the moment that now() stands for.
-- Each view may read those before it. `-- view: Name` starts each.

-- view: CurrentCustomers
SELECT * FROM Customers QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY updated_at DESC) = 1;

-- view: PricedOrders
SELECT order_id, customer_id, ordered_at, list_sum([i.quantity * i.price FOR i IN items])::DECIMAL(12, 2) AS total FROM Orders;

-- view: Parcels
SELECT s.shipment_id, s.order_id, o.customer_id, s.carrier_id, s.promised_at, l.status, l.warehouse_id, d.delivered_at
FROM Shipments s JOIN Orders o USING (order_id)
    LEFT JOIN (SELECT * FROM Stops QUALIFY row_number() OVER (PARTITION BY shipment_id ORDER BY seen_at DESC) = 1) l USING (shipment_id)
    LEFT JOIN (SELECT shipment_id, seen_at AS delivered_at FROM Stops WHERE status = 'delivered') d USING (shipment_id);

-- view: LateShipments
SELECT shipment_id, order_id, customer_id, carrier_id, status, promised_at, delivered_at FROM Parcels
WHERE delivered_at > promised_at OR (delivered_at IS NULL AND promised_at < clock());

-- view: Products
SELECT i.sku, sum(i.quantity) AS sold, sum(i.quantity * i.price) AS revenue, count(DISTINCT customer_id) AS customers
FROM (SELECT customer_id, unnest(items) AS i FROM Orders) GROUP BY ALL;

-- view: CarrierScores
SELECT carrier_id, name, count(*) AS shipments, count(delivered_at) AS delivered, count(*) FILTER (delivered_at > promised_at) AS late,
       count(*) FILTER (status = 'lost') AS lost
FROM Carriers JOIN Parcels USING (carrier_id) GROUP BY ALL;

-- view: Customers.byCarrier
SELECT customer_id, carrier_id, count(*) AS shipments, max(sent_at) AS last_sent_at
FROM Shipments JOIN Orders USING (order_id) GROUP BY ALL;
